"""What `tautrank.tune` may change: the ranges that a user gives, or those that are worth searching for a loss."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from tautrank.engines import NativeLoss, Settings, read_loss
from tautrank.engines.langevin import Langevin
from tautrank.errors import DataError, OptionError, unknown
from tautrank.experiments.search_space import TREE_SPACE, Choice, Dimension, Uniform, WholeNumber, read_range, samples
from tautrank.losses import XENDCG, LambdaLoss, ListNet, Loss, NDCGLoss2PP, SmoothedLoss, SoftRank, StochasticRank

Space: TypeAlias = dict[str, Dimension]

DEFAULT = "default"
# What a search has no business with, and what to do instead.
_NOT_SEARCHED = {
    "loss": "a list of losses as loss",
    "langevin": "langevin.temperature and langevin.shrink_rate",
    "metric": "one metric for all trials",
    "engine": "one engine for all trials",
    "random_state": "one seed for all trials, so that they differ by their parameters alone",
    "n_jobs": "threads for all trials alike",
    "verbose": "what changes the model",
    "eval_train": "what changes the model",
    "categorical_feature": "the same columns in all trials",
}
_RANKER = ("n_estimators", "learning_rate", "num_leaves", "early_stopping_rounds")
_LANGEVIN = tuple(field.name for field in dataclasses.fields(Langevin))


def read_space(given: Mapping[str, Any]) -> Space:
    """A space as a user wrote it.

    Args:
        given: ranges by name.

    >>> read_space({"num_leaves": ("int", 4, 64, "log")})
    {'num_leaves': WholeNumber(low=4, high=64, log=True)}
    """
    if not given:
        raise OptionError("space: found nothing in it; expected at least one range")
    return {str(name): read_range(str(name), value) for name, value in given.items()}


def read_space_file(path: str | os.PathLike[str]) -> Space:
    """A space from a JSON file: an object of ranges by name.

    Args:
        path: of the file.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{path}: found '{name}' twice; expected every name once")
        return dict(pairs)

    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=once)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); expected a JSON file of ranges by name") from None
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: is not JSON ({error}); expected an object of ranges by name") from None
    if not isinstance(content, dict):
        raise DataError(f'{path}: found something else; expected an object such as {{"num_leaves": ["int", 4, 64]}}')
    try:
        return read_space(content)
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None


def space_named_or_in_file(text: str) -> str | Space:
    """What a user means by a word: a space that has a name, or the file of one.

    Args:
        text: what was typed.

    >>> space_named_or_in_file("trees")
    'trees'
    >>> space_named_or_in_file("treees")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown space 'treees'; did you mean 'trees'? (known: ...; or a JSON file)
    """
    if text in SPACES:
        return text
    if not Path(text).is_file() and not text.endswith(".json"):
        raise OptionError(f"{str(unknown('space', text, SPACES))[:-1]}; or a JSON file)")
    return read_space_file(text)


def named_space(name: str, loss: Loss | NativeLoss) -> Space:
    """One of the spaces that have a name, for one loss.

    ``default`` is the tree parameters that matter most and what is worth changing in the loss; ``trees`` the tree
    parameters alone; ``stochasticrank`` what the authors of StochasticRank searched, with 500 random trials of 1000
    trees: Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML
    2020, appendix F. A depth there is as many leaves here as a tree of CatBoost's of that depth has.

    Args:
        name: which.
        loss: what is trained.

    >>> sorted(named_space("stochasticrank", read_loss("lambdarank")))
    ['learning_rate', 'num_leaves', 'reg_lambda']
    """
    if name not in SPACES:
        raise unknown("space", name, SPACES)
    return SPACES[name](loss)


def _parameters(loss: Loss | NativeLoss) -> dict[str, Any]:
    """The parameters a loss has, and their defaults; a tool's own objective has none here."""
    return {} if isinstance(loss, NativeLoss) else {field.name: field.default for field in dataclasses.fields(loss)}


def _takes_langevin(loss: Loss | NativeLoss) -> bool:
    """Whether a loss can be trained with noise on its gradients."""
    return not isinstance(loss, NativeLoss) or loss.tool == "catboost"


def spaces_of(losses: Iterable[str], space: str | Mapping[str, Any] | None, fixed: Mapping[str, Any]) -> list[Space]:
    """The space of each loss: what is given, as far as the loss has it.

    A space that has a name leaves out what is fixed and what the loss was given in its own words. In a space of a
    user's, every name must be of use to one of the losses, and nothing may be given twice.

    Args:
        losses: what `Ranker` takes.
        space: the name of a space, a mapping of ranges, or None for the default.
        fixed: parameters that are the same in all trials.

    >>> spaces_of(["ndcg-loss2++"], {"loss.mu": ("float", 1, 10)}, {})
    [{'loss.mu': Uniform(low=1, high=10, log=False)}]
    >>> spaces_of(["ndcg-loss2++"], {"loss.nu": ("float", 1, 10)}, {})
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown parameter of ndcg-loss2++: 'nu'; did you mean 'mu'? (known: ...)
    """
    read = [read_loss(loss) for loss in losses]
    if space is None or isinstance(space, str):
        found = [_as_far_as_free(named_space(space or DEFAULT, loss), loss, fixed) for loss in read]
    elif isinstance(space, Mapping):
        given = read_space(space)
        _check_names(given, read, fixed)
        found = [{name: one for name, one in given.items() if _has(loss, name)} for loss in read]
        for loss, own in zip(read, found, strict=True):
            for name, one in own.items():
                _check_values(loss, name, one)
    else:
        raise OptionError(f"space: found {space!r}; expected a name, or ranges by name")
    # By name, so that what is drawn does not depend on the order in which a space was written down.
    sorted_spaces = [dict(sorted(own.items())) for own in found]
    if len(read) == 1 and not sorted_spaces[0]:
        raise OptionError(f"space: found nothing to change in {read[0]}; expected a range of what is not fixed")
    return sorted_spaces


def _has(loss: Loss | NativeLoss, name: str) -> bool:
    part, _, parameter = name.rpartition(".")
    return {"": True, "loss": parameter in _parameters(loss), "langevin": _takes_langevin(loss)}[part]


def _as_far_as_free(space: Space, loss: Loss | NativeLoss, fixed: Mapping[str, Any]) -> Space:
    def is_free(name: str, one: Dimension) -> bool:
        part, _, parameter = name.rpartition(".")
        if part != "loss":
            return _has(loss, name) and (part or name) not in fixed
        return not _is_given(loss, parameter) and _allows(loss, name, one)

    return {name: one for name, one in space.items() if is_free(name, one)}


def _is_given(loss: Loss | NativeLoss, parameter: str) -> bool:
    known = _parameters(loss)
    return parameter in known and getattr(loss, parameter) != known[parameter]


def _allows(loss: Loss | NativeLoss, name: str, given: Dimension) -> bool:
    """Whether a loss takes a range: ``mu``, for one, is of no use to a metric without ties."""
    try:
        _check_values(loss, name, given)
    except OptionError:
        return False
    return True


def _check_values(loss: Loss | NativeLoss, name: str, given: Dimension) -> None:
    """Say at once what every trial would say; the values of an engine's own parameters are left to the engine."""
    part, _, parameter = name.rpartition(".")
    try:
        for value in samples(given):
            if part == "langevin":
                Langevin(**{parameter: value})
            elif part == "loss" and not isinstance(loss, NativeLoss):
                dataclasses.replace(loss, **{parameter: value})
            elif name in _RANKER:
                Settings(**{name: value})
    except OptionError as error:
        raise OptionError(f"{part}.{error}" if part else str(error)) from None


def _check_names(space: Space, losses: list[Loss | NativeLoss], fixed: Mapping[str, Any]) -> None:
    of = losses[0] if len(losses) == 1 else "these losses"
    parameters = {parameter for loss in losses for parameter in _parameters(loss)}
    for name in space:
        part, dot, rest = name.partition(".")
        if name in fixed:
            raise OptionError(f"{name}: found in the space and as a fixed parameter; expected it once")
        if name in _NOT_SEARCHED:
            raise OptionError(f"{name}: found in the space; expected {_NOT_SEARCHED[name]}")
        if not dot:
            continue  # the engine knows its own names
        if part not in ("loss", "langevin"):
            raise unknown("parameter", name, [f"loss.{p}" for p in parameters] + [f"langevin.{p}" for p in _LANGEVIN])
        if part == "langevin":
            if rest not in _LANGEVIN:
                raise unknown("parameter of langevin:", rest, _LANGEVIN)
            if not any(_takes_langevin(loss) for loss in losses):
                raise OptionError(f"{name}: found for {of}; expected a loss of this library, or one of CatBoost's")
        elif rest not in parameters:
            if not parameters:
                raise OptionError(f"{name}: found for {of}, which has no parameters here; expected a tree parameter")
            raise unknown(f"parameter of {of}:", rest, parameters)
        elif any(_is_given(loss, rest) for loss in losses):
            given = next(loss for loss in losses if _is_given(loss, rest))
            raise OptionError(f"{name}: found in the space and in {given}; expected it once")


def _tree_space(_: Loss | NativeLoss) -> Space:
    """From the least to the most of what `tautrank compare --tune` draws; counts and rates by their logarithm."""
    space: Space = {}
    for name, choice in TREE_SPACE.items():
        low, high = min(choice.values), max(choice.values)
        if low == 0:
            space[name] = choice
        elif isinstance(low, int):
            space[name] = WholeNumber(low, high, log=True)
        else:
            space[name] = Uniform(low, high, log=name == "learning_rate")
    return space


_WORTH_SEARCHING: tuple[tuple[type[Loss], Space], ...] = (
    (LambdaLoss, {"k": Choice((10, 30, 100, None))}),
    (NDCGLoss2PP, {"mu": Uniform(0.5, 20.0, log=True)}),
    (XENDCG, {"gamma": Choice(("uniform", "tight")), "hessian": Choice(("neumann", "diagonal", "exact"))}),
    (ListNet, {"target": Choice(("linear", "softmax")), "hessian": Choice(("diagonal", "exact"))}),
    (StochasticRank, {"mu": Uniform(0.01, 1.0, log=True)}),
)


def _default_space(loss: Loss | NativeLoss) -> Space:
    """The trees, and what changes the ranking in the loss.

    ``sigma`` is not in it where the hessian grows with it: then twice the sigma is the same training with scores half
    (for the smoothed metrics twice) as large, but for regularisation.
    """
    space = _tree_space(loss)
    for kind, ranges in _WORTH_SEARCHING:
        if isinstance(loss, kind):
            space |= {f"loss.{name}": one for name, one in ranges.items()}
    if isinstance(loss, SoftRank) and loss.scale == "plain":
        space["loss.sigma"] = Uniform(0.1, 10.0, log=True)
    return space


def _stochasticrank_space(loss: Loss | NativeLoss) -> Space:
    smoothed = isinstance(loss, SmoothedLoss)
    space: Space = {
        "learning_rate": Uniform(1e-3, 1.0, log=True),
        "num_leaves": Choice(tuple(2**depth for depth in (6, 7, 8, 9, 10))),
        "reg_lambda": Choice((0.0,)) if smoothed else Uniform(0.1, 10.0, log=True),
    }
    if smoothed:
        space["langevin.shrink_rate"] = Uniform(1e-5, 1e-2, log=True)
        space["langevin.temperature"] = Uniform(1e8, 1e11, log=True)
    if isinstance(loss, StochasticRank):
        space["loss.mu"] = Uniform(1e-2, 10.0, log=True)
    if isinstance(loss, Loss) and loss.noise is not None:
        space["loss.strength"] = Uniform(0.0, 1.0)
    return space


SPACES = {DEFAULT: _default_space, "trees": _tree_space, "stochasticrank": _stochasticrank_space}
"""The spaces that have a name: functions of the loss."""
