"""Training on a Dask cluster: every worker computes the gradients of its documents, and the tool's
own network (LightGBM's sockets, XGBoost's collective) grows one tree from all of them.

The loop (`loop.boost`) stays with the client. Per tree, workers report the largest gradient and
hessian of their documents, and the largest of all decides the grid that all round to: sums over
documents are then exact in any order. With bins found from one sample, and random numbers keyed by
a query's place in the whole, trees are the same bits for any number of workers. LightGBM estimates
the number of documents in a leaf over its network, and counts them without one: `min_data_in_leaf`
may then decide differently, so a cluster of one worker trains two parts. XGBoost has no such
number: its trees are also those of one machine, if the sample is all documents.

The client has every tree that was grown. If a worker is lost, the others take over its documents
and go on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from tautrank.arrays import F64, I64, Array
from tautrank.data import RankingData
from tautrank.data.distributed import DistributedData, check_versions
from tautrank.engines import lightgbm, xgboost
from tautrank.engines.base import CutShortError
from tautrank.engines.cluster_parts import PART_CLASSES, Grown
from tautrank.engines.cluster_shares import data_shares, placed_after
from tautrank.engines.cluster_workers import ClusterWorkers, LostError
from tautrank.engines.gradients import LargestValues
from tautrank.engines.lightgbm_binning import sampled_rows
from tautrank.engines.model import FittedModel
from tautrank.engines.packages import package
from tautrank.engines.task import Part, Settings, Task
from tautrank.errors import DataError, OptionError
from tautrank.losses.own_losses import sendable

MOST_LOSSES = 3
# Values equivalent to the default of a parameter.
_LIKE_DEFAULT = (None, False, "gbdt", "bagging", "gbtree", "hist", "cpu")
_PARAMETERS = {"lightgbm": lightgbm.parameters, "xgboost": xgboost.parameters}


class ClusterGradients:
    """The gradients of a loss where workers hold the documents and the scores.

    Args:
        workers: the parts of the training.
    """

    def __init__(self, workers: ClusterWorkers) -> None:
        self._workers = workers

    def at(self, step: int, scale: float) -> Callable[[], LargestValues]:
        """Return what has the gradients of a round computed."""
        return partial(self._measure, step, scale)

    def _measure(self, step: int, scale: float) -> LargestValues:
        """Have every worker compute the gradients of its documents; return the largest gradient and
        hessian of all.

        Args:
            step: number of the tree.
            scale: factor from the scores that the engine keeps to those of the model, which Langevin
                boosting shrinks before each tree; 1 without it.
        """
        # One answer per worker: the largest absolute values among its own documents.
        answers = self._workers.call("measure", step, scale)
        return LargestValues(
            gradient=max(largest.gradient for largest in answers),
            hessian=max(largest.hessian for largest in answers),
        )

    def leaf_values(self, leaves: Array, l2: float) -> F64:
        """Langevin boosting needs features in memory."""
        raise NotImplementedError


class _Shares(NamedTuple):
    """The documents of all parts."""

    train: list[RankingData]
    valid: list[RankingData | None]


class ClusterLearner:
    """A training whose documents are with the workers of a cluster.

    Args:
        engine: name of the engine.
        task: `Task.train` is `DistributedData`.
        settings: how to train.
    """

    def __init__(self, engine: str, task: Task, settings: Settings) -> None:
        assert isinstance(task.train, DistributedData)
        self._part_class = PART_CLASSES[engine]
        if task.propensities is not None:
            raise OptionError("propensities: cannot be used on a cluster; expected none")
        self._params = _PARAMETERS[engine](task, settings)
        self._check_parameters()
        if task.train.n_queries < 2:
            raise DataError(
                "X: found one query; expected at least two, for a training on a cluster"
            )
        package(engine)
        check_versions(task.train.client, engine)

        self._task = task
        self._settings = settings
        self._custom_losses = sendable([task.loss], "client")
        self._workers = ClusterWorkers(task.train.client)
        self.gradients = ClusterGradients(self._workers)
        self._trees: list[bytes] = []
        self._n_losses = 0
        self._valid_scores: list[Array] = []
        self._sample: Any = None  # of all documents, which bins are found from
        self._rounds_before = 0 if task.start is None else task.start.n_trees
        self.rounds = self._rounds_before

    def _check_parameters(self) -> None:
        """Refuse parameters of the tool by which trees would depend on the number of workers, or
        that a training on a cluster takes with their default only.
        """
        # `_part_class` describes a worker's part of the training, for LightGBM or for XGBoost.
        for name, value_for_off in self._part_class.sampling_off.items():
            if self._params.get(name, value_for_off) != value_for_off:
                raise OptionError(
                    f"{name}: samples the documents of each worker, so that trees depend on the "
                    f"number of workers; expected {self._part_class.instead_of_sampling}"
                )
        for name in self._part_class.single_valued:
            if self._params.get(name) not in _LIKE_DEFAULT:
                raise OptionError(
                    f"{name}: found {self._params[name]}; expected it unset for a training on a "
                    "cluster"
                )

    def grow(self, gradients: Any, rate: float) -> None:
        """Grow one tree on all workers of the cluster; after the loss of a worker, divide the
        documents among those that are left and grow it again.

        Args:
            gradients: function that has the workers compute gradients, and returns the largest.
            rate: learning rate.
        """
        answers: list[Grown] = []  # one per worker: rounds so far, validation scores, new tree
        while not answers:
            try:
                # At the start and after a loss, no worker holds a part of the training.
                if not self._workers.have_parts:
                    self._begin()
                answers = self._workers.call("grow", gradients(), rate)
            except LostError as error:  # noqa: PERF203
                self._workers.release()
                self._count_loss(error)  # raises an error after too many losses
            except BaseException:
                self._workers.release()
                raise

        # All workers have the same tree; the first sends it.
        first_answer = answers[0]
        # Where no split is found, a round adds no tree.
        has_new_tree = first_answer.rounds > self.rounds
        if has_new_tree:
            self._trees.append(first_answer.tree)
        self.rounds = first_answer.rounds
        self._valid_scores = []
        for answer in answers:
            if answer.valid_scores is not None:
                self._valid_scores.append(answer.valid_scores)

    def _count_loss(self, error: LostError) -> None:
        """Count the loss of a worker; end the training with an error after too many losses."""
        self._n_losses += 1
        if self._n_losses > MOST_LOSSES:
            raise CutShortError(
                f"client: workers were lost {self._n_losses} times ({error})"
            ) from None

    def scores(self, part: Part) -> Array:
        """Return the scores of all documents of a part.

        Args:
            part: train or valid.
        """
        if part == "valid":
            scores_of_workers = self._valid_scores  # sent along with the last tree
        else:
            scores_of_workers = self._workers.call("scores", part)
        return np.concatenate(scores_of_workers)

    def model(self, rounds: int) -> FittedModel:
        """Return the model of the first rounds, and let the workers go.

        Args:
            rounds: number of rounds.
        """
        self._workers.release()
        return self._model_of(rounds)

    def _model_of(self, rounds: int) -> FittedModel:
        """Return the model of the first rounds, joined from the trees that workers have sent.

        A model that the training continues comes first; its rounds count. Each entry of `_trees` is
        a model of one tree, as bytes in the tool's format.
        """
        n_new_rounds = rounds - self._rounds_before
        model_contents = self._trees[:n_new_rounds]
        if self._task.start is not None:
            model_contents = [self._task.start.to_bytes(), *model_contents]

        # Without what only this cluster needs, such as the addresses of its machines.
        portable_contents = [self._part_class.portable(content) for content in model_contents]
        model_class = self._part_class.engine.model_class
        model: FittedModel = model_class.joined(portable_contents, self._task.train.n_features)
        return model

    def _begin(self) -> None:
        """Start a training on the workers of a cluster: divide the documents into parts, one for a
        worker, put features into bins, and connect the parts by the tool's own network.

        All parts find the same bins, from one sample of all documents.
        """
        threads_by_address = self._workers.threads_by_address()
        addresses = [*threads_by_address]
        n_workers = len(addresses)
        # LightGBM counts otherwise without a network: one worker trains two parts.
        n_parts = max(2, min(n_workers, self._task.train.n_queries))
        addresses_of_parts = [addresses[number % n_workers] for number in range(n_parts)]
        shares = self._shares(n_parts)

        tasks = self._tasks_of_parts(shares)
        arguments_by_part = []
        for number, address in enumerate(addresses_of_parts):
            threads = threads_by_address[address] * n_workers // n_parts
            settings = self._settings_of_part(max(1, threads))
            arguments = (tasks[number], settings, number, self._custom_losses)
            arguments_by_part.append((address, arguments))
        self._workers.place(self._part_class, arguments_by_part)

        if self._sample is None:
            samples_of_parts = self._workers.call("sample", self._sampled_rows(shares))
            self._sample = np.concatenate(samples_of_parts)
        hosts = [urlsplit(address).hostname or "" for address in addresses_of_parts]
        network_addresses = self._workers.call("bin", self._sample, hosts)
        self._workers.call("join", network_addresses)

    def _shares(self, n_parts: int) -> _Shares:
        """Divide the training and the validation data into a number of shares of whole queries, one
        training and one validation share (or None) for each part of the training.
        """
        valid_shares: list[RankingData | None] = [None] * n_parts
        if self._task.valid is not None:
            valid_shares = data_shares(self._task.valid, n_parts)
        return _Shares(train=data_shares(self._task.train, n_parts), valid=valid_shares)

    def _tasks_of_parts(self, shares: _Shares) -> list[Task]:
        """Return the task of each part of a training on a cluster: to learn from its share of the
        documents.

        Queries keep the numbers that they have in the whole data, by which random numbers are
        keyed. Trees grown so far, before a worker was lost, are a model to start from.
        """
        task = self._task
        start = task.start
        if self._trees:
            start = self._model_of(self.rounds)

        tasks = []
        loss_text: Any = str(task.loss)  # a part reads it again
        n_queries_so_far = 0
        for train, valid in zip(shares.train, shares.valid, strict=True):
            # Empty queries in front stand for those of the shares before, so that this share's own
            # queries are counted on; the weights are cut at the same end.
            numbered_train = placed_after(train, n_queries_so_far)
            n_queries_so_far = numbered_train.n_queries
            weights = task.weights
            if weights is not None:
                weights = weights[:n_queries_so_far]
            part_task = replace(
                task,
                train=numbered_train,
                valid=valid,
                weights=weights,
                loss=loss_text,
                start=start,
                whole=(task.train.n_documents, task.train.n_queries),
            )
            tasks.append(part_task)
        return tasks

    def _settings_of_part(self, threads: int) -> Settings:
        return replace(
            self._settings,
            n_jobs=self._settings.n_jobs or threads,
            callbacks=(),
            verbose=0,
            eval_train=False,
        )

    def _sampled_rows(self, shares: _Shares) -> list[I64]:
        """Return for each part the rows of the sample that bins are found from, counted from the
        part's first row.

        The sample is drawn among all documents, so it does not depend on the number of parts.
        """
        documents_of_parts = [share.n_documents for share in shares.train]
        first_rows = np.cumsum([0, *documents_of_parts])  # and the number of all rows at the end
        params = {"data_random_seed": self._settings.seed, **self._params}
        sample = sampled_rows(int(first_rows[-1]), params)  # ascending

        # The sample is cut where each part but the first begins.
        cuts = np.searchsorted(sample, first_rows[1:-1])
        rows_by_part = []
        for number, rows in enumerate(np.split(sample, cuts)):
            rows_by_part.append(rows - first_rows[number])
        return rows_by_part
