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

    >>> class Overlap(torch.nn.Module):  # stands for a CrossEncoder: scores by the number of words in common
    ...     num_labels, device = 1, "cpu"
    ...     weight = torch.nn.Parameter(torch.ones(1))
    ...     def preprocess(self, pairs, **prompts):
    ...         return {"words": torch.tensor([float(len({*a.split()} & {*b.split()})) for a, b in pairs])}
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
        self.model = model
        self.listwise = torch_loss(name, seed=seed, **parameters)
        self.mini_batch_size = (
            None if mini_batch_size is None else whole("mini_batch_size", mini_batch_size, least=1)
        )

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
                "found rows of another form; expected a query, a list of documents and a list of labels"
            )
        sizes = [len(documents) for documents in inputs[1]]
        if sizes != [len(each) for each in labels]:
            raise DataError(
                f"labels: found {[len(each) for each in labels]} per query; expected {sizes}"
            )
        pairs = [
            (query, text) for query, documents in zip(*inputs, strict=True) for text in documents
        ]
        step = self.mini_batch_size or max(len(pairs), 1)
        scores = []
        for first in range(0, len(pairs), step):
            features = self.model.preprocess(pairs[first : first + step], prompt=prompt, task=task)
            placed = {
                name: value.to(self.model.device) if isinstance(value, torch.Tensor) else value
                for name, value in features.items()
            }
            scores.append(self.model(placed)["scores"].reshape(-1))
        flat = torch.cat([torch.as_tensor(each) for each in labels]).float()
        return self.listwise(torch.cat(scores), flat, lengths=torch.tensor(sizes))

    def get_config_dict(self) -> dict[str, Any]:
        """Return the parameters, for the model card."""
        return {
            "loss": str(self.listwise.kind),
            "mini_batch_size": self.mini_batch_size,
            "seed": self.listwise.seed,
        }
