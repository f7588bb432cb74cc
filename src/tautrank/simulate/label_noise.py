"""Make labels noisier or coarser: mistakes of judges, and binary judgments."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tautrank.arguments import real
from tautrank.data import RankingData
from tautrank.errors import OptionError
from tautrank.simulate.arguments import checked_seed, probabilities_by_label, ranking_data

# Probabilities of the labels 0 to 4 that a perturbed document gets: Bruch 2020, sec. 5.4.
PERTURBED_SHARES = (0.5, 0.2, 0.15, 0.1, 0.05)


def perturb_labels(
    data: RankingData, probability: float, *, distribution: Sequence[float] | None = None, seed: int = 0
) -> RankingData:
    """Set a share of the labels to random values, as judges' mistakes would.

    Every label is chosen with the given probability, independently of all others, and a chosen label becomes
    ``0, 1, 2, ...`` with the probabilities of ``distribution``, whatever it was (so it may stay what it was):
    ``P(new = b | old = a) = probability * distribution[b] + (1 - probability) * [a = b]``.

    The paper chooses "a subset" of each list's documents and leaves open how; here the size of the subset is
    binomial. With one seed, the labels chosen at a probability are among those chosen at any higher one, and they
    get the same new values, so a curve over probabilities is not blurred by the choice of documents.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 5.4, Figures 3c and 3d.

    Args:
        data: the data; it is not changed, and the result shares its features.
        probability: probability that a label is chosen.
        distribution: probabilities of the new labels 0, 1, 2, ...; ``None`` is the paper's .5, .2, .15, .1, .05, up to
            the highest grade of the data: with labels 0, 1 and 2, the first three over their sum. A label of 4 among
            labels up to 2 would be no mistake of a judge, but five times the gain that any document has.
        seed: the same seed gives the same labels.

    >>> data = RankingData.from_arrays([[0.0]] * 8, [4] * 8, group=[8])
    >>> perturb_labels(data, 0.5).labels.tolist()
    [4.0, 3.0, 2.0, 0.0, 4.0, 4.0, 4.0, 4.0]
    """
    ranking_data(data)
    chance = real("probability", probability, most=1)
    if distribution is None:
        within = np.array(PERTURBED_SHARES[: int(data.labels.max(initial=0)) + 1])
        distribution = (within / within.sum()).tolist()
    table = probabilities_by_label("distribution", distribution)
    if abs(table.sum() - 1) > 1e-6:
        raise OptionError(f"distribution: found a sum of {table.sum():g}; expected probabilities that sum to 1")
    rng = np.random.default_rng(checked_seed(seed))
    chosen = rng.random(data.n_documents) < chance
    # Values are drawn for all documents, so that which ones are chosen does not change what they get.
    drawn = rng.choice(table.size, data.n_documents, p=table / table.sum()).astype(np.float32)
    return dataclasses.replace(data, labels=np.where(chosen, drawn, data.labels))


def binarise(data: RankingData, threshold: float = 0.0) -> RankingData:
    """Turn graded labels into relevant or not: 1 where the label is above the threshold, else 0.

    The default sets every label that is not 0 to 1, which makes Web30K-b of Web30K and Yahoo!-b of Yahoo!: Bruch,
    Wang, Bendersky and Najork, *An Analysis of the Softmax Cross Entropy Loss for Learning-to-Rank with Binary
    Relevance*, ICTIR 2019, sec. 4. It is also what `mrr`, `map`, `precision` and `recall` call relevant.

    Args:
        data: the data; it is not changed, and the result shares its features.
        threshold: the highest label that is not relevant.

    >>> data = RankingData.from_arrays([[0.0]] * 4, [0, 1, 2, 4], group=[4])
    >>> binarise(data).labels.tolist(), binarise(data, threshold=1).labels.tolist()
    ([0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0])
    """
    ranking_data(data)
    limit = real("threshold", threshold)
    return dataclasses.replace(data, labels=(data.labels > limit).astype(np.float32))
