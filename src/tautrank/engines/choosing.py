"""What a user means by a loss, the engine that trains it, and the model that a file holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tautrank.engines.base import Engine
from tautrank.engines.committee import CommitteeEngine
from tautrank.engines.model import FittedModel
from tautrank.engines.registry import engine_named, engine_of_member, read_member
from tautrank.engines.sum_model import SumModel
from tautrank.engines.task import DEFAULT_COMMITTEE, AnyLoss, Committee, Member, NativeLoss
from tautrank.errors import OptionError
from tautrank.names import Registry, name_of


@dataclass(frozen=True)
class CommitteeOptions:
    """What is typed of a committee: the fields of `Committee`, with losses that are to be read.

    Args:
        of: the losses, in one text with ``|`` between them, or as a sequence.
        members: as in `Committee`.
        weights: as in `Committee`.
    """

    name: ClassVar[str]

    of: Any = DEFAULT_COMMITTEE
    members: int = 1
    weights: str = "equal"

    def read(self) -> Committee:
        """Return the committee that these options describe: several losses whose models are added
        up.

        The losses are in `self.of`: a list, or text such as ``lambdarank|xendcg``.
        """
        losses = self.of
        if isinstance(losses, str):
            losses = losses.split("|")
        if losses in ([], ()):
            raise OptionError("loss: found an empty list; expected at least one loss")
        if not isinstance(losses, list | tuple):
            raise OptionError(f"loss: found the committee {self.of!r}; expected at least one loss")
        return Committee(
            losses=tuple(_read_loss_in_committee(loss) for loss in losses),
            members=self.members,
            weights=self.weights,
        )


COMMITTEES: Registry[CommitteeOptions] = Registry(
    CommitteeOptions, "loss", "'committee' or 'committee(members=2)'"
)
"""The one name of a committee, read by the grammar of losses."""
COMMITTEES.register("committee")(CommitteeOptions)


def read_loss(argument: Any) -> AnyLoss:
    """Return the loss a user means.

    Args:
        argument: a name, a printed loss, a `Loss`, or ``tool:objective``; ``"committee"``, or a
            sequence of losses, for several that are added up.

    >>> read_loss("ndcg-loss2++(k=5)"), read_loss("catboost:yetirank")
    (ndcg-loss2++(k=5), NativeLoss(tool='catboost', objective='YetiRank'))
    >>> read_loss("lambdarnk")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown loss 'lambdarnk'; did you mean 'lambdarank'? (known: ...)
    >>> read_loss("lightgbm:lamdarank")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown loss 'lightgbm:lamdarank'; did you mean
    'lightgbm:lambdarank'? (known: ...)
    """
    if isinstance(argument, NativeLoss | Committee):
        return argument
    if isinstance(argument, list | tuple):
        # A committee is a sum of several models, one or more for each loss.
        return CommitteeOptions(of=argument).read()
    if isinstance(argument, str) and name_of(argument) == "committee":
        return COMMITTEES.make(argument).read()
    return read_member(argument)


def _read_loss_in_committee(argument: Any) -> Member:
    loss = read_loss(argument)
    if isinstance(loss, Committee):
        raise OptionError("loss: found a committee in a committee; expected losses")
    return loss


def members_of(loss: AnyLoss) -> Sequence[Member]:
    """Return the losses of a committee, or the one loss.

    Args:
        loss: what `read_loss` returned.

    >>> members_of(read_loss("mse")), members_of(read_loss("committee(of=mse|xendcg)"))
    ((mse,), (mse, xendcg))
    """
    return loss.losses if isinstance(loss, Committee) else (loss,)


def engine_for(name: str, loss: AnyLoss) -> Engine:
    """Return the engine that trains a loss: the tool itself for its own objective, else the engine
    of that name.

    Args:
        name: one of `TOOLS`.
        loss: the loss to train.

    >>> engine_for("lightgbm", read_loss("xendcg")).name
    'lightgbm'
    >>> engine_for("lightgbm", read_loss("catboost:RMSE")).name
    'catboost'
    >>> engine_for("catboost", read_loss("xendcg"))
    Traceback (most recent call last):
    tautrank.errors.OptionError: engine: found catboost for the loss xendcg, but CatBoost trains
    only its own objectives here; expected lightgbm, xgboost, torch, or a loss such as
    'catboost:YetiRank'
    """
    if not isinstance(loss, Committee):
        return engine_of_member(name, loss)
    for member in loss.losses:
        engine_of_member(name, member)
    return CommitteeEngine(name)


def read_model(tool: str, content: bytes, n_features: int, scale: float) -> FittedModel:
    """Read a model in a tool's own format.

    Args:
        tool: the engine.
        content: what `FittedModel.to_bytes` returned.
        n_features: number of features that the model must have.
        scale: what its scores are multiplied by.
    """
    model_class = SumModel if tool == SumModel.tool else engine_named(tool).model_class
    return model_class.read(content, n_features, scale)
