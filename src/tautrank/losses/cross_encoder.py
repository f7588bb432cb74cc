"""The losses of this library for sentence-transformers: an adapter for its
`CrossEncoderTrainer`.
"""

from __future__ import annotations

from typing import Any

from tautrank.arguments import whole
from tautrank.errors import DataError, OptionError
from tautrank.losses.base import Loss
from tautrank.losses.torch_loss import torch_loss

import torch  # isort: skip  # after the sentence about a missing PyTorch


class CrossEncoderLoss(torch.nn.Module):
    """A loss for lists of texts: ``CrossEncoderTrainer(model=model, loss=CrossEncoderLoss(model,
    "lambdarank"), ...)``.

    The data set has a query, a list of documents and a list of labels in each row, as
    sentence-transformers' own listwise losses take them; lists may have any length.

    Args:
        model: a ``CrossEncoder`` with one output.
        name: the loss, as in `tautrank.loss`.
        mini_batch_size: pairs of texts that go through the model at a time; None for all of a
            batch.
        seed: seed of all random numbers.
        **parameters: parameters of the loss.

    >>> def words_in_common(query, text):
    ...     return float(len(set(query.split()) & set(text.split())))
    >>> class Overlap(torch.nn.Module):  # stands for a CrossEncoder
    ...     num_labels, device = 1, "cpu"
    ...     weight = torch.nn.Parameter(torch.ones(1))
    ...     def preprocess(self, pairs, **prompts):
    ...         return {"words": torch.tensor([words_in_common(*pair) for pair in pairs])}
    ...     def forward(self, features):
    ...         return {"scores": self.weight * features["words"]}
    >>> listwise = CrossEncoderLoss(Overlap(), "ranknet")
    >>> value = listwise([["red shoes"], [["red shoes", "blue coat"]]], [torch.tensor([1, 0])])
    >>> bool(value.isclose(torch.log2(1 + torch.exp(torch.tensor(-2.0)))))
    True
    """

    def __init__(
        self,
        model: Any,
        name: str | Loss,
        *,
        mini_batch_size: int | None = None,
        seed: int = 0,
        **parameters: Any,
    ) -> None:
        super().__init__()
        if model.num_labels != 1:
            raise OptionError(f"model: found {model.num_labels} outputs; expected one, the score")
        if mini_batch_size is not None:
            mini_batch_size = whole("mini_batch_size", mini_batch_size, least=1)
        self.model = model
        # The loss by its name, as a PyTorch module over lists of scores.
        self.listwise = torch_loss(name, seed=seed, **parameters)
        self.mini_batch_size = mini_batch_size

    def forward(
        self, inputs: Any, labels: Any, prompt: str | None = None, task: str | None = None
    ) -> torch.Tensor:
        """Return the mean loss of the lists.

        Args:
            inputs: the queries, and the documents of each.
            labels: the labels of the documents of each query.
            prompt: passed to the model's preprocessing.
            task: passed to it too.
        """
        if len(inputs) != 2 or isinstance(labels, torch.Tensor):
            raise DataError(
                "found rows of another form; expected a query, a list of documents and a list of"
                " labels"
            )
        queries, documents = inputs
        sizes = [len(texts) for texts in documents]
        numbers_of_labels = [len(labels_of_list) for labels_of_list in labels]
        if sizes != numbers_of_labels:
            raise DataError(f"labels: found {numbers_of_labels} per query; expected {sizes}")

        pairs: list[tuple[Any, Any]] = []
        for query, texts in zip(queries, documents, strict=True):
            pairs += [(query, text) for text in texts]
        batch_size = self.mini_batch_size or max(len(pairs), 1)
        scores = []
        for first in range(0, len(pairs), batch_size):
            batch = pairs[first : first + batch_size]
            scores.append(self._scores(self.model.preprocess(batch, prompt=prompt, task=task)))
        flat_labels = [torch.as_tensor(labels_of_list) for labels_of_list in labels]
        return self.listwise(
            torch.cat(scores), torch.cat(flat_labels).float(), lengths=torch.tensor(sizes)
        )

    def _scores(self, features: dict[str, Any]) -> torch.Tensor:
        """Return the model's scores of a batch of tokenised texts, one number each; the batch's
        tensors are brought to the model's device first.
        """
        features_there = {}
        for name, value in features.items():
            is_tensor = isinstance(value, torch.Tensor)
            features_there[name] = value.to(self.model.device) if is_tensor else value
        scores: torch.Tensor = self.model(features_there)["scores"]
        # From one column, the model's only output, to a flat tensor.
        return scores.reshape(-1)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the parameters, for the model card."""
        return {
            "loss": str(self.listwise.kind),
            "mini_batch_size": self.mini_batch_size,
            "seed": self.listwise.seed,
        }
