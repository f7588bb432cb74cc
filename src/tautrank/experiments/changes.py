"""What a condition changes in the data of a trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tautrank.arguments import choice
from tautrank.data import RankingData, Splits
from tautrank.errors import OptionError
from tautrank.experiments.protocols import PARTS
from tautrank.json_values import declare
from tautrank.simulate import add_negatives, binarise, perturb_labels, simulate_clicks


def _binarise(data: RankingData, seed: int = 0, **parameters: Any) -> RankingData:
    """Make labels binary; the seed is accepted so that all changes are called alike."""
    return binarise(data, **parameters)


CHANGES: dict[str, Callable[..., RankingData]] = {
    "add-negatives": add_negatives,
    "perturb-labels": perturb_labels,
    "clicks": simulate_clicks,
    "binarise": _binarise,
}
"""Every change by name: a function of (data, parameters, seed)."""


@dataclass(frozen=True)
class Change:
    """A change to the data before training.

    Args:
        kind: ``"add-negatives"`` (share), ``"perturb-labels"`` (probability), ``"clicks"``
            (impressions, probabilities) or ``"binarise"`` (threshold): see `tautrank.simulate` for
            what each does.
        parameters: the parameters of that function, without the seed, which comes from the trial.
        parts: the parts that are changed: some of ``"train"``, ``"valid"`` and ``"test"``.

    >>> Change("perturb-label", {"probability": 0.1})
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown change 'perturb-label'; did you mean 'perturb-labels'? (known: ...)
    """

    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ("train",)

    def __post_init__(self) -> None:
        choice("change", self.kind, CHANGES)
        if not self.parts or not set(self.parts) <= set(PARTS):
            raise OptionError(
                f"parts: found {list(self.parts)}; expected some of train, valid and test"
            )


declare(__name__)


def apply_changes(splits: Splits, changes: tuple[Change, ...], seed: int) -> Splits:
    """Apply changes to the training, validation and test data, such as noise in the labels, one
    after the other, and return the changed parts.

    The random numbers of a part depend on the seed, the part and the number of the change alone.

    Args:
        splits: the three parts; they are not modified.
        changes: the changes, in order.
        seed: the seed of the trial; with the same seed, more noise includes what less noise did.

    >>> data = RankingData.from_arrays([[0.0]] * 4, [0, 1, 2, 4], group=[4])
    >>> binary = (Change("binarise", parts=("train", "test")),)
    >>> apply_changes(Splits(data, data, data), binary, seed=0).train.labels.tolist()
    [0.0, 1.0, 1.0, 1.0]
    """
    for change_index, change in enumerate(changes):
        # A change names its kind (a function), the parts it applies to, and parameters.
        apply_change = CHANGES[change.kind]
        for part_index, part_name in enumerate(PARTS):
            data = getattr(splits, part_name)
            if part_name not in change.parts or data is None:
                continue
            # Seeds of their own: a change of one part does not shift the random numbers of others.
            seeds = [seed, change_index, part_index]
            random_state = np.random.SeedSequence(seeds).generate_state(1)
            changed_data = apply_change(data, **change.parameters, seed=int(random_state[0]))
            splits = splits._replace(**{part_name: changed_data})
    return splits
