"""The engines by name, and other tools' own objectives as losses: ``"lightgbm:lambdarank"``,
``"xgboost:rank:ndcg"``.

Each engine is imported when it is first asked for, and its tool when it first trains. A tool trains
its own objective as it would by itself; every iteration is judged with the metric of this library,
so that tools can be compared.

The packages of the tools are safe to use after a fork, as found by experiment. LightGBM and XGBoost
use GNU OpenMP. Once a process has run one parallel region and then forks, the next parallel region
in the child waits forever for threads that were not copied; with LightGBM 4.7 even reading a model
does, whatever ``num_threads`` says. A child that was forked after such a library was loaded
therefore runs it on one thread. Processes that were spawned, or started by loky (joblib,
scikit-learn's ``n_jobs``), are not affected; nor is CatBoost.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tautrank.arguments import job_count
from tautrank.errors import OptionError, TautrankWarning, require, unknown
from tautrank.losses import REGISTRY, Loss, loss
from tautrank.names import name_of

if TYPE_CHECKING:
    from tautrank.engines.base import Engine
    from tautrank.engines.committee import Committee

ENGINES: dict[str, str] = {
    "lightgbm": "tautrank.engines.lightgbm:LightGBM",
    "xgboost": "tautrank.engines.xgboost:XGBoost",
    "catboost": "tautrank.engines.catboost:CatBoost",
    "torch": "tautrank.engines.torch:Torch",
}
"""Where each engine is: ``module:Class``. A new engine is one file and one line here."""

DEFAULT_ENGINE = "lightgbm"
OPENMP = ("lightgbm", "xgboost")
"""The engines that hang in a forked process unless they are held to one thread."""

OTHER_NAMES = {
    "n_estimators": ("num_iterations", "num_boost_round", "num_trees", "iterations"),
    "learning_rate": ("learning_rate", "eta"),
    "num_leaves": ("num_leaves", "max_leaves"),
    "n_jobs": ("num_threads", "nthread", "thread_count"),
    "random_state": ("seed", "random_seed"),
    "loss": ("objective", "loss_function"),
    "metric": ("metric", "eval_metric"),
    "metric (as ndcg@5)": ("eval_at",),
    "early_stopping_rounds": ("early_stopping_round", "od_wait", "od_type"),
    "categorical_feature": ("categorical_feature", "cat_features"),
    "init_model": ("input_model",),
    "langevin": ("diffusion_temperature",),
}
"""The parameters that have one name here for all engines, and what tools call them."""


def other_name(name: str, main: str | None = None) -> list[str]:
    """Say what a parameter is called here, if a tool's name for it was given.

    Args:
        name: the name as the user gave it.
        main: the tool's main name for it, if ``name`` is an alias.

    >>> other_name("eta"), other_name("max_depth")
    (['eta: is called learning_rate here; expected that name'], [])
    """
    found = [ours for ours, theirs in OTHER_NAMES.items() if (main or name) in theirs]
    return [f"{name}: is called {ours} here; expected that name" for ours in found]


@dataclass(frozen=True)
class NativeLoss:
    """A tool's own objective, trained as the tool itself trains it; prints as ``tool:objective``.

    Args:
        tool: the engine, such as ``lightgbm``.
        objective: the tool's name for the objective.

    >>> print(NativeLoss("xgboost", "rank:ndcg"))
    xgboost:rank:ndcg
    """

    tool: str
    objective: str

    def __str__(self) -> str:
        return f"{self.tool}:{self.objective}"


AnyLoss: TypeAlias = "Loss | NativeLoss | Committee"
"""What can be trained."""


def engine_named(name: str) -> Engine:
    """Return the engine of this name.

    Args:
        name: one of `ENGINES`.

    >>> engine_named("lightgbm").written
    'LightGBM'
    >>> engine_named("lightbgm")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown engine 'lightbgm'; did you mean 'lightgbm'? (known: ...)
    """
    if name not in ENGINES:
        raise unknown("engine", str(name), ENGINES)
    module, _, kind = ENGINES[name].partition(":")
    found: Engine = getattr(importlib.import_module(module), kind)()
    return found


def read_loss(given: Any) -> AnyLoss:
    """Return the loss a user means.

    Args:
        given: a name, a printed loss, a `Loss`, or ``tool:objective``; ``"committee"``, or a
            sequence of losses, for several that are added up.

    >>> read_loss("ndcg-loss2++(k=5)"), read_loss("catboost:yetirank")
    (ndcg-loss2++(k=5), NativeLoss(tool='catboost', objective='YetiRank'))
    >>> read_loss("lambdarnk")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown loss 'lambdarnk'; did you mean 'lambdarank'? (known: ...)
    >>> read_loss("lightgbm:lamdarank")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown loss 'lightgbm:lamdarank'; did you mean 'lightgbm:lambdarank'? (known: ...)
    """
    from tautrank.engines.committee import COMMITTEES, Committee

    if isinstance(given, NativeLoss | Committee):
        return given
    if isinstance(given, list | tuple):
        return Committee(of=tuple(given))
    if isinstance(given, str) and name_of(given) == "committee":
        return COMMITTEES.make(given)
    if isinstance(given, str):
        tool, colon, objective = given.strip().partition(":")
        if colon and "(" not in tool:
            found = (
                engine_named(tool.lower()).find_objective(objective)
                if tool.lower() in ENGINES
                else None
            )
            if found is None:
                raise unknown("loss", given, _native_losses())
            return NativeLoss(tool.lower(), found)
        if name_of(given) not in REGISTRY:
            raise unknown("loss", name_of(given), [*REGISTRY, *_native_losses()])
    return loss(given)


def members_of(loss: AnyLoss) -> Sequence[Loss | NativeLoss]:
    """Return the losses of a committee, or the one loss.

    Args:
        loss: what `read_loss` returned.

    >>> members_of(read_loss("mse")), members_of(read_loss("committee(of=mse|xendcg)"))
    ((mse,), (mse, xendcg))
    """
    return (loss,) if isinstance(loss, Loss | NativeLoss) else loss.losses


def _native_losses() -> list[str]:
    return [
        f"{name}:{objective}" for name in ENGINES for objective in engine_named(name).objectives
    ]


def engine_for(name: str, loss: AnyLoss) -> Engine:
    """Return the engine that trains a loss: the tool itself for its own objective, else the engine
    of that name.

    Args:
        name: one of `ENGINES`.
        loss: the loss to train.

    >>> engine_for("lightgbm", read_loss("xendcg")).name, engine_for("lightgbm", read_loss("catboost:RMSE")).name
    ('lightgbm', 'catboost')
    >>> engine_for("catboost", read_loss("xendcg"))
    Traceback (most recent call last):
    tautrank.errors.OptionError: engine: found catboost for the loss xendcg, but CatBoost trains only its own objectives
    here; expected lightgbm, xgboost, torch, or a loss such as 'catboost:YetiRank'
    """
    from tautrank.engines.committee import Committee, CommitteeEngine

    engine = engine_named(name)
    if isinstance(loss, Committee):
        for member in loss.losses:
            engine_for(name, member)
        return CommitteeEngine(name)
    if isinstance(loss, NativeLoss):
        return engine_named(loss.tool)
    if not engine.takes_losses:
        others = ", ".join(other for other in ENGINES if engine_named(other).takes_losses)
        found = (
            f"{name} for the loss {loss}, but {engine.written} trains only its own objectives here"
        )
        expected = f"{others}, or a loss such as '{name}:{engine.objectives[0]}'"
        raise OptionError(f"engine: found {found}; expected {expected}")
    return engine


# Whether the parent ran a parallel region cannot be known here: having loaded the library is taken
# for it.
_loaded_before_fork: set[str] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_child=lambda: _loaded_before_fork.update(sys.modules.keys() & OPENMP)
    )


def package(name: str) -> Any:
    """Import the package of an engine's tool, safe to use in this process.

    GNU OpenMP lets threads spin while they wait, for up to milliseconds, which is what other
    processes then wait for: 100 trees on MQ2008 with two threads on two busy cores took 43 s and
    more, asleep 2 s. It reads the environment when it is loaded: its threads sleep, unless the
    environment says otherwise.

    Args:
        name: one of `ENGINES`.

    >>> package("lightgbm").Booster.__name__
    'Booster'
    """
    engine = engine_named(name)
    module = engine.package or name
    asleep = (
        module not in sys.modules and not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
    )
    if asleep:
        os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        found = require(module, f"engine '{name}' needs {engine.written}", name)
    finally:
        if asleep:
            os.environ.pop("OMP_WAIT_POLICY", None)
    make_safe(name)
    return found


def check_installed(name: str) -> None:
    """Refuse an engine whose package is missing, without importing it, which takes a second.

    Args:
        name: one of `ENGINES`.
    """
    if importlib.util.find_spec(engine_named(name).package or name) is None:
        package(name)


def usable_threads(n_jobs: int | None) -> int:
    """Return how many threads ``n_jobs`` asks for; 1 in a forked process where more would hang.

    If more were asked for by number, there is a warning. ``None`` is all cores, or fewer where the
    environment says so: joblib sets ``OMP_NUM_THREADS`` for its workers, and more threads than
    cores would mostly wait for each other.

    >>> usable_threads(2)
    2
    """
    threads = job_count(n_jobs)
    if n_jobs is None:
        stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        threads = min(threads, int(stated)) if stated.isdecimal() and int(stated) > 0 else threads
    if not _loaded_before_fork or threads == 1:
        return threads
    if n_jobs not in (None, -1):
        loaded = " and ".join(sorted(_loaded_before_fork))
        found = f"{n_jobs} in a process forked after {loaded} was loaded, where OpenMP would hang"
        used = "1 thread (start processes with 'spawn' to use more)"
        warnings.warn(f"n_jobs: found {found}; using {used}", TautrankWarning, stacklevel=2)
    return 1


def make_safe(name: str) -> None:
    """Hold an engine's tool to one thread if it would hang in this process otherwise; called before
    every use.

    Args:
        name: the engine.
    """
    if name in _loaded_before_fork:
        _limit(name)


@functools.cache
def _limit(name: str) -> None:
    # What was limited in the parent, itself a child, stays limited here.
    engine_named(name).limit_to_one_thread()
