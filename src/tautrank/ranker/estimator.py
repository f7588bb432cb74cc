"""The scikit-learn estimator that trains a loss on an engine."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable
from typing import IO, Any, ClassVar, NamedTuple, overload

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from tautrank.arguments import job_count, one_or_more
from tautrank.arrays import F64, Array, dense, query_of, ranks_in
from tautrank.data import RankingData, StreamedRows
from tautrank.engines import (
    DEFAULT_ENGINE,
    AnyLoss,
    Callback,
    Engine,
    FittedModel,
    Record,
    Settings,
    Task,
    engine_for,
    read_loss,
)
from tautrank.engines.committee import CommitteeEngine
from tautrank.engines.langevin import Langevin
from tautrank.engines.packages import usable_threads
from tautrank.engines.task import Committee
from tautrank.engines.training import fit
from tautrank.errors import DataError, OptionError, TautrankError, TautrankWarning
from tautrank.metrics import Metric, metric
from tautrank.ranker import inputs
from tautrank.ranker.columns import (
    Columns,
    category_columns,
    check_columns,
    column_constraints,
)
from tautrank.ranker.explanation import Explanation
from tautrank.ranker.fitted import Fitted
from tautrank.ranker.list_features import PROBE_TREES, ListFeatures, with_list_features
from tautrank.ranker.model_file import read_ranker, write_ranker
from tautrank.ranker.ranking import Ranking
from tautrank.ranker.validation import given_once, validation_sets


class UnfittedError(TautrankError, NotFittedError):  # type: ignore[misc]
    """A ranker was asked for something that it only has after `fit`."""


class Training(NamedTuple):
    """What `Ranker.fit` trains.

    Args:
        engine: what trains it.
        task: what to learn from what, list features included.
        settings: how to learn it.
        data: the training data as it was given.
        list_features: the list features of the task; None if there are none.
    """

    engine: Engine
    task: Task
    settings: Settings
    data: RankingData
    list_features: ListFeatures | None

    def fitted(self, model: FittedModel, record: Record) -> Fitted:
        """Return what a ranker keeps of a training with this outcome."""
        return Fitted(
            model, record, self.data.feature_names, self.list_features, self.data.categories
        )


class Ranker(BaseEstimator):  # type: ignore[misc]
    """A ranking model: trees that are fitted to a ranking loss and judged by a ranking metric.

    It is a scikit-learn estimator that works with `GridSearchCV`, pipelines and `clone`. Results
    depend only on the data, the parameters and ``random_state``; for trees that learn a loss of
    this library not on ``n_jobs``.

    Args:
        loss: a name (``"lambdarank"``, ``"ndcg-loss2++(k=5)"``), a loss made by `tautrank.loss`, or
            another tool's own objective: ``"lightgbm:lambdarank"``, ``"xgboost:rank:ndcg"``,
            ``"catboost:YetiRank"``, ... Or several of them, a committee: ``"committee"`` for the
            default ones, or a list; they are trained side by side and added up to one model.
        metric: a name or a metric; it is computed after each tree, decides early stopping, and is
            the `score`.
        engine: ``"lightgbm"`` or ``"xgboost"``, which grow trees, or ``"torch"`` for a network;
            another tool's own objective is always trained by that tool.
        n_estimators: number of trees.
        learning_rate: factor that each tree is scaled by.
        num_leaves: maximum number of leaves per tree (for CatBoost the depth that has this many
            leaves).
        early_stopping_rounds: stop when the metric has not improved on the validation data for this
            many trees, and keep the trees up to the best one. None trains and keeps all trees; so
            does `fit` without validation data.
        random_state: seed of the engine and of the loss: a whole number, a NumPy ``RandomState`` or
            ``Generator`` to draw one from, or None for a new one each time.
        n_jobs: threads of engine and loss; None chooses by the size of the data, up to all cores,
            or to ``OMP_NUM_THREADS`` if it is set (joblib sets it in its workers); -1 is all cores.
        verbose: 0 or less for silence, 1 for progress on standard error, None for a bar if that is
            a terminal.
        eval_train: whether to compute the metric on the training data too.
        langevin: `Langevin` (temperature, shrink_rate) adds noise to the gradients and shrinks the
            model before each tree, which helps to escape local optima; the shrunk model is judged,
            kept and saved. It works with losses of this library and with CatBoost's objectives.
            None turns it off.
        members: number of models of each loss; several losses, or this parameter, make a committee.
        list_features: True to describe documents relative to their list too: the z-score and the
            rank of each feature within its query. Or the names or numbers of the features to
            describe, ``"auto"`` to choose them on the validation data with short trainings, or
            `ListFeatures` for other kinds. `predict` then needs ``qid`` or ``group``.
        cross_validate_trees: True to choose the number of trees by cross-validation, over training and validation
            data together, and to train that many trees on all of it. It takes about five times as
            long; ``evals_result_`` and ``best_score_`` are those of the queries that each of four
            models had not seen.
        speed: ``"fast"`` for coarser bins (63, found from 20,000 documents) and quantised
            gradients, with LightGBM: less time per tree, and trees that differ a little;
            docs/performance.md has measurements. ``"exact"`` for the engine's own defaults.
        **engine_parameters: any parameter of the engine under the engine's own name, such as
            ``min_data_in_leaf=50``; with LightGBM also ``categorical_feature``, the names or
            numbers of columns that hold category codes.

    Attributes:
        evals_result_: ``{"valid": {"ndcg@10": [...]}}``, and ``"train"`` if asked for: one value
            per tree of this fit; for a committee one per tree of each member, of their sum, and
            then that of the finished model.
        best_iteration_: number of trees with the best validation value; all of them without
            validation data.
        best_score_: that value, None without validation data.
        n_trees_: number of trees that predict.
        model_: the trees; ``model_.booster`` is the engine's own object (``model_.model`` for
            CatBoost).
        n_features_in_: number of features of the data, list features not counted.
        feature_names_in_: their names, if the data had names.
        categories_: levels of the columns that held categories, by name; a level that is not among
            them is missing.
        list_features_: `ListFeatures` with the numbers of its columns; None if there are none.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3)); qid = np.repeat(np.arange(40), 10)
    >>> y = (X[:, 0] > 1) + 1 * (X[:, 0] > 0)
    >>> ranker = Ranker(loss="lambdarank", metric="ndcg@5", n_estimators=20).fit(X, y, qid=qid)
    >>> round(ranker.score(X, y, qid=qid), 2)
    1.0
    >>> int(ranker.feature_importances_.argmax())
    0
    """

    def __init__(
        self,
        loss: Any = "lambdarank",
        metric: str | Metric = "ndcg@10",
        engine: str = DEFAULT_ENGINE,
        n_estimators: int = Settings.n_estimators,
        learning_rate: float = Settings.learning_rate,
        num_leaves: int = Settings.num_leaves,
        early_stopping_rounds: int | None = Settings.early_stopping_rounds,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int | None = None,
        eval_train: bool = False,
        langevin: Langevin | None = None,
        members: int | None = None,
        list_features: Any = False,
        cross_validate_trees: bool = False,
        speed: str = Settings.speed,
        **engine_parameters: Any,
    ) -> None:
        self.loss = loss
        self.metric = metric
        self.engine = engine
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.early_stopping_rounds = early_stopping_rounds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.eval_train = eval_train
        self.langevin = langevin
        self.members = members
        self.list_features = list_features
        self.cross_validate_trees = cross_validate_trees
        self.speed = speed
        self._engine_parameters = engine_parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters by name, those of the engine included.

        Args:
            deep: has no effect: losses and metrics are values, not estimators.

        >>> Ranker(min_data_in_leaf=5).get_params()["min_data_in_leaf"]
        5
        """
        return {**super().get_params(deep=False), **self._engine_parameters}

    def set_params(self, **params: Any) -> Ranker:
        """Change parameters of the ranker and return the ranker; a name that is not the ranker's own
        is a parameter of the engine (the library that grows the trees), checked by `fit`.

        Args:
            **params: values by name.

        >>> Ranker().set_params(num_leaves=7, lambda_l2=1.0).get_params()["lambda_l2"]
        1.0
        """
        names_of_ranker = self._get_param_names()
        for name, value in params.items():
            if name in names_of_ranker:
                setattr(self, name, value)
            else:
                # A new dictionary: copies of the ranker may share the old one.
                self._engine_parameters = {**self._engine_parameters, name: value}
        return self

    # What scikit-learn's pipelines and searches pass on once
    # `sklearn.set_config(enable_metadata_routing=True)` is set.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, Any]] = {"qid": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    @overload
    def fit(
        self,
        train: RankingData,
        valid: RankingData | None = None,
        /,
        *,
        eval_set: Any = None,
        weights: Any = None,
        propensities: Any = None,
        init_model: Any = None,
        callbacks: Iterable[Callback] | Callback | None = None,
    ) -> Ranker: ...

    @overload
    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        eval_set: Any = None,
        weights: Any = None,
        propensities: Any = None,
        init_model: Any = None,
        callbacks: Iterable[Callback] | Callback | None = None,
    ) -> Ranker: ...

    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        eval_set: Any = None,
        weights: Any = None,
        propensities: Any = None,
        init_model: Any = None,
        callbacks: Iterable[Callback] | Callback | None = None,
    ) -> Ranker:
        """Train: ``fit(X, y, qid=qid, eval_set=(Xv, yv, qv))`` or ``fit(train, valid)`` with
        `RankingData`.

        Args:
            X: features (array, frame, Arrow table, SciPy sparse matrix), NaN where missing; or
                `RankingData`, also with features that stay in files (`read_streamed`,
                `read_distributed`).
            y: labels, finite and at least 0; or, with `RankingData`, the validation data.
            qid: the query of each row; or
            group: the number of rows of each query, in order.
            eval_set: validation data, ``(X, y, qid)`` or `RankingData`; or a dictionary of several
                sets by name. All are judged after each tree; the first one decides early stopping.
            weights: one per query (or one per row, equal within a query): they scale the loss, not
                the metric.
            propensities: one per row, for the softmax losses: the probability that a user looked at
                the document. Labels are then clicks; see `tautrank.losses.SoftmaxLoss`.
            init_model: a ranker, or anything that `load` takes, to add ``n_estimators`` trees to.
                With a loss of this library the result is the same bits as training in one go,
                unless the engine samples documents or features, or rounds gradients at random
                (``speed="fast"``).
            callbacks: functions of one argument, a `Step`, called after each tree; training stops
                if one returns True.

        `tautrank.compat.LGBMRanker` takes the arguments of LightGBM's ranker too.

        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> Ranker(n_estimators=3, early_stopping_rounds=2).fit(data, data).best_score_
        1.0
        """
        # `fit(train, valid)`: the second argument is then validation data instead of labels.
        if isinstance(X, RankingData) and isinstance(y, RankingData):
            eval_set = given_once(y, eval_set)
            y = None
        arguments = inputs.FitArguments(
            train=inputs.ranking_data(X, y, qid, group),
            eval_set=eval_set,
            weights=weights,
            propensities=propensities,
            init_model=init_model,
            callbacks=one_or_more(callbacks or ()),
        )
        # Everything is checked here, before the training: engine, task and settings.
        training = self._training(arguments)
        # The record holds the scores after each tree, and which tree was the best.
        model, record = fit(training.engine, training.task, training.settings)
        self._keep(training.fitted(model, record))
        return self

    def _training(self, arguments: inputs.FitArguments) -> Training:
        """Return what to train: the ranker's parameters and the arguments of `fit`, checked and put
        together.
        """
        loss = self._loss_to_train()
        engine = engine_for(self.engine, loss)
        start = self._ranker_to_continue(arguments.init_model, engine.name)
        train = inputs.not_empty(arguments.train)
        if start is not None:
            train = start._like_fit(train, "init_model, X")
        valid = validation_sets(arguments.eval_set, train)
        inputs.check_streams(
            train,
            valid.data,
            engine.name,
            list_features=self.list_features,
            cross_validate_trees=self.cross_validate_trees,
        )
        self._warn_of_rounding(train, engine.name)

        task = Task(
            train=train,
            loss=loss,
            metric=metric(self.metric),
            metrics=arguments.extra_metrics,
            valid=valid.data,
            sets=valid.sizes,
            weights=inputs.query_weights(arguments.weights, train, "weights"),
            propensities=inputs.document_propensities(arguments.propensities, train, loss),
            categorical=self._category_columns(arguments.categorical_feature, train),
            start=None if start is None else start.model_,
            start_step=0 if start is None else start._fitted.record.steps,
        )
        settings = self._settings(arguments, train)
        if valid.data is None and not self.cross_validate_trees:
            settings = dataclasses.replace(settings, early_stopping_rounds=None)

        task, list_features = self._with_list_features(engine, task, settings, start)
        return Training(engine, task, settings, train, list_features)

    def _loss_to_train(self) -> AnyLoss:
        """Return the loss to train from the ranker's parameters `loss` (a loss or its text) and
        `members`: with `members` it is a committee, that many models whose scores are added.
        """
        loss = read_loss(self.loss)
        if self.members is None:
            return loss
        if isinstance(loss, Committee):
            return dataclasses.replace(loss, members=self.members)
        # A committee takes several losses; here all its members have the same one.
        return Committee((loss,), self.members)

    def _ranker_to_continue(self, init_model: Any, engine_name: str) -> Ranker | None:
        """Return the fitted ranker to add trees to from the argument `init_model` (a ranker or a
        saved model), None without; raise an error if the engine cannot continue its model.
        """
        if init_model is None:
            return None
        start = init_model if isinstance(init_model, Ranker) else Ranker.load(init_model)
        start._check_fitted("init_model")
        if engine_name == CommitteeEngine.name:
            raise OptionError(
                "init_model: found a committee, which cannot continue a model; expected one loss"
            )
        if start.model_.tool != engine_name:
            raise OptionError(
                f"init_model: was trained by {start.model_.tool}; expected a model of {engine_name}"
            )
        return start

    def _warn_of_rounding(self, train: RankingData, engine_name: str) -> None:
        """Warn of features that are kept as doubles, and that only LightGBM does not round."""
        if train.X.dtype == np.float64 and engine_name not in ("lightgbm", CommitteeEngine.name):
            warnings.warn(
                f"X: has values above 2^24 that {engine_name} rounds to float32; "
                "lightgbm keeps them",
                TautrankWarning,
                stacklevel=4,
            )

    def _category_columns(self, categorical_feature: Any, train: RankingData) -> tuple[int, ...]:
        """Return the numbers of the columns that hold category codes.

        Args:
            categorical_feature: what was given to `fit`; None for the ranker's own parameter.
            train: the training data.
        """
        if categorical_feature is None:
            categorical_feature = self._engine_parameters.get("categorical_feature")
        return category_columns(categorical_feature, train)

    def _settings(self, arguments: inputs.FitArguments, train: RankingData) -> Settings:
        """Return the settings of a training (number of trees, learning rate, seed, ...): the
        ranker's parameters, overridden by settings among the arguments of `fit`.

        Args:
            arguments: the arguments of `fit`.
            train: the training data, by whose columns monotone constraints are given.
        """
        names_of_settings = {field.name for field in dataclasses.fields(Settings)}
        settings = {
            name: getattr(self, name)
            for name in self._get_param_names()
            if name in names_of_settings
        }
        settings.update(arguments.settings)

        # What is left are parameters of the engine; it gets categories with the data.
        extra = dict(self._engine_parameters)
        extra.pop("categorical_feature", None)
        if extra.get("monotone_constraints") is not None:
            extra["monotone_constraints"] = column_constraints(extra["monotone_constraints"], train)
        return Settings(
            **settings,
            seed=inputs.drawn_seed(self.random_state),
            callbacks=arguments.callbacks,
            extra=extra,
        )

    def _with_list_features(
        self, engine: Engine, task: Task, settings: Settings, start: Ranker | None
    ) -> tuple[Task, ListFeatures | None]:
        """Return the task (data and loss of a training) with list features as further columns, and
        these list features; the same task and None if the ranker asks for none.

        List features describe a value relative to the list of its query, such as its rank.

        Args:
            engine: what grows the trees.
            task: the task, with the features of the data alone.
            settings: the settings of the training.
            start: the ranker that is continued, which keeps its list features; None if none is.
        """
        # A probe is a short and silent training, by which columns are chosen automatically.
        probe_settings = dataclasses.replace(
            settings,
            n_estimators=min(settings.n_estimators, PROBE_TREES),
            verbose=0,
            callbacks=(),
            cross_validate_trees=False,
        )

        def fit_probe(probe_task: Task) -> tuple[FittedModel, Record]:
            return fit(engine, probe_task, probe_settings)

        before = None if start is None else start.list_features_
        return with_list_features(self.list_features, task, fit_probe, settings.threads, before)

    def predict(self, X: Any, qid: Any = None, *, group: Any = None) -> Array:
        """Return the score of each document, in the order of the rows.

        Args:
            X: features, as in `fit`; or `RankingData`.
            qid: the query of each row, which the scores depend on with list features or
                self-attention; or
            group: the number of rows of each query; with neither, all rows are one list.

        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> low, high = Ranker(n_estimators=3).fit(data).predict([[0.0], [1.0]])
        >>> bool(low < high)
        True
        """
        self._check_fitted("predict")
        # Small arrays take a short way: the checks below would cost more than scoring one row.
        if qid is None and group is None and self._scores_rows_as_they_are():
            rows = inputs.plain_rows(X, self.n_features_in_)
            if rows is not None:
                return self.model_.predict(rows, self.n_jobs)

        data, features = self._model_input(X, qid, group)
        scores = self.model_.predict(features, self.n_jobs, data.offsets)
        if data is X:
            return scores
        # The rows of a query were gathered if they were scattered: back to the user's order.
        return data.in_source_order(scores)

    def _scores_rows_as_they_are(self) -> bool:
        """Whether a score depends on nothing but the numbers of its row."""
        return self.list_features_ is None and not self.categories_ and not self.model_.by_list

    def _model_input(self, X: Any, qid: Any, group: Any) -> tuple[RankingData, Any]:
        """Return documents to be scored as `RankingData`, and the matrix that the model scores:
        their features, checked against those of `fit`, and list features behind them.

        Args:
            X: features, or `RankingData`.
            qid: the query of each row; or
            group: the number of rows of each query.
        """
        data = inputs.documents(X, qid, group)
        job_count(self.n_jobs)  # an error if it is no number of threads
        # List features cannot be computed of features that stay in files; "" means no training.
        inputs.check_streams(data, None, "", list_features=self.list_features_)
        coded_data = self._like_fit(data, "X")
        return data, self._columns(coded_data.X, data)

    def score(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the metric on these documents, the mean over queries; greater is better.

        A metric that is a cost (``arp``) is negated, as in scikit-learn's scorers.

        Args:
            X: features, as in `fit`; or `RankingData`.
            y: labels.
            qid: the query of each row; or
            group: the number of rows of each query.
            sample_weight: weights for the mean, one per query (or one per row, equal within a
                query).
        """
        self._check_fitted("score")
        metric_of_ranker = metric(self.metric)
        data = inputs.ranking_data(X, y, qid, group)
        weights = inputs.query_weights(sample_weight, data, "sample_weight")
        mean = metric_of_ranker.mean(self.predict(data), data, weights=weights)
        # The sign is -1 for costs, else 1.
        return metric_of_ranker.sign * mean

    def rank(self, X: Any, qid: Any = None, *, group: Any = None) -> Ranking:
        """Sort the documents of each query, the best first; equal scores keep the order of the
        rows.

        Args:
            X: features, as in `fit`; or `RankingData`.
            qid: the query of each row; or
            group: the number of rows of each query; with neither, all rows are one query, 0.

        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> ranking = Ranker(n_estimators=3).fit(data).rank([[0.0], [1.0], [0.5]], qid=["a", "a", "b"])
        >>> ranking.qid.tolist(), ranking.document.tolist(), ranking.rank.tolist()
        (['a', 'a', 'b'], [1, 0, 2], [1, 2, 1])
        """
        self._check_fitted("rank")
        data = inputs.documents(X, qid, group)
        rows = np.arange(data.n_documents)
        # Rows of a query that were scattered have been gathered: they keep the numbers they had.
        if data is not X and data.source_rows is not None:
            rows = data.source_rows
        scores = self.predict(data)
        # The last key of `lexsort` counts first: by query, then from the highest score down.
        order = np.lexsort((-scores, query_of(data.offsets)))
        return Ranking(
            qid=data.qid_of_document,
            document=rows[order],
            rank=ranks_in(data.offsets),  # 1, 2, ... within each query
            score=scores[order],
            doc_id=None if data.doc_ids is None else data.doc_ids[order],
        )

    def explain(self, X: Any, qid: Any = None) -> Explanation:
        """Explain the scores of documents: what each feature adds to each, and why one is above
        another.

        Args:
            X: features, as in `fit`; or `RankingData`.
            qid: the query to explain, of `RankingData`; all documents by default. List features
                count for the feature that they are made from.

        >>> data = RankingData.from_arrays([[0.0, 1.0], [1.0, 0.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> explained = Ranker(n_estimators=3).fit(data).explain(data, qid=0)
        >>> bool(np.allclose(explained.base + explained.contributions.sum(axis=1), explained.scores))
        True
        >>> explained.why(above=1, below=0).features[0]
        'f1'
        """
        self._check_fitted("explain")
        data = inputs.documents(X)
        if qid is not None:
            data = _query(data, qid)
        data = self._like_fit(data, "X")
        if isinstance(data.X, StreamedRows):
            data = dataclasses.replace(data, X=data.X.read())

        columns = self._columns(data.X, data)
        # One column per column of the model, and the score that all documents start from.
        contributions_and_base = self.model_.contributions(columns, self.n_jobs)
        contributions = contributions_and_base[:, :-1]
        if self.list_features_ is not None:
            contributions = self.list_features_.by_source(contributions.T).T

        def predict(rows: Any) -> F64:
            return self.model_.predict(self._columns(rows, data), self.n_jobs)

        return Explanation(
            documents=np.arange(data.n_documents) if data.doc_ids is None else data.doc_ids,
            features=self._names_of_features(),
            values=dense(data.X),
            contributions=contributions,
            base=float(contributions_and_base[0, -1]) if data.n_documents else 0.0,
            scores=self.model_.predict(columns, self.n_jobs),
            predict=predict,
            by_list=self.list_features_ is not None,
        )

    def _names_of_features(self) -> tuple[str, ...]:
        """Return the names of the features that the ranker was fitted on: f1, f2, ... if the
        training data had no names.
        """
        # `fit` sets this attribute only if there are names, as scikit-learn does.
        if hasattr(self, "feature_names_in_"):
            return tuple(str(name) for name in self.feature_names_in_)
        return tuple(f"f{number}" for number in range(1, self.n_features_in_ + 1))

    @property
    def feature_importances_(self) -> F64:
        """What each feature contributed to the objective over all splits, as shares that sum to 1.

        List features count for the feature that they are made from; ``model_.importances()`` has
        them one by one.
        """
        self._check_fitted("feature_importances_")
        shares = self.model_.importances()
        if self.list_features_ is None:
            return shares
        return self.list_features_.by_source(shares)

    def save(self, path: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write the fitted ranker to one file, in one step; there is no code in it, and no pickle.

        It holds the trees, the loss, the metric and all parameters, feature names, the training
        history and versions. The same ranker gives the same bytes.

        Args:
            path: file to write, by convention ``*.taut``; or a binary file that is open for
                writing.

        >>> import tempfile
        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> ranker = Ranker(n_estimators=3).fit(data)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ranker.save(folder + "/model.taut")
        ...     loaded = Ranker.load(folder + "/model.taut")
        >>> bool((loaded.predict(data) == ranker.predict(data)).all())
        True
        """
        self._check_fitted("save")
        parameters = {**self.get_params(), "loss": str(read_loss(self.loss))}
        if not isinstance(self.random_state, int | np.integer | None):
            # A generator is no parameter for a file; what was drawn from it is.
            parameters["random_state"] = self._fitted.record.seed
        write_ranker(path, parameters, self._fitted._replace(model=self.model_))

    @classmethod
    def load(cls, source: Any) -> Ranker:
        """Read a ranker that `save` wrote, which predicts the same bits; or a model of LightGBM or
        XGBoost.

        Loss and metric come back as text. Loading runs no code from the file, whoever made it.
        LightGBM's text and XGBoost's JSON and UBJSON are recognised by their content. They hold
        trees, feature names and the objective, but neither the metric nor the other parameters,
        which have their defaults here. Scores are raw: before a sigmoid or exponential of the
        objective. As `XGBRanker`, the ranker has the trees up to XGBoost's ``best_iteration``.

        Args:
            source: a path, bytes, or a binary file; or a booster or scikit-learn estimator of
                LightGBM or XGBoost.

        >>> import lightgbm
        >>> data = lightgbm.Dataset(np.array([[0.0], [1.0]] * 40), [0, 1] * 40, group=[2] * 40)
        >>> booster = lightgbm.train({"objective": "lambdarank", "verbosity": -1}, data, 3)
        >>> ranker = Ranker.load(booster.model_to_string().encode())
        >>> ranker.loss, ranker.n_trees_, bool(ranker.predict([[0.0]])[0] == booster.predict([[0.0]])[0])
        ('lightgbm:lambdarank', 3, True)
        """
        parameters, fitted = read_ranker(source)
        ranker = cls(**parameters)
        ranker._keep(fitted)
        return ranker

    def _keep(self, fitted: Fitted) -> None:
        """Set the attributes that a fitted ranker has, from what the training returned: the model,
        its history (the record), and the names and categories of the columns.
        """
        self._fitted = fitted
        self.model_ = fitted.model
        self.categories_ = dict(fitted.categories)
        self.list_features_ = fitted.list_features
        self.evals_result_ = fitted.record.history
        self.best_iteration_ = fitted.record.best_iteration
        self.best_score_ = fitted.record.best_score
        self.n_trees_ = fitted.model.n_trees
        self.n_features_in_ = fitted.n_features
        if fitted.feature_names is not None:
            self.feature_names_in_ = np.array(fitted.feature_names, dtype=object)
        # An earlier `fit` on data with names may have left them.
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _columns(self, X: Any, data: RankingData) -> Any:
        """Return the columns of the model: features, and list features of the lists of ``data``."""
        if self.list_features_ is None:
            return X
        return self.list_features_.transform(X, data.offsets, usable_threads(self.n_jobs))

    def _check_fitted(self, name: str) -> None:
        """Raise an error if there was no `fit`; `name` is the method that was called."""
        if not hasattr(self, "model_"):
            raise UnfittedError(f"{name}: this Ranker is not fitted; expected a call of fit before")

    def _like_fit(self, data: RankingData, where: str) -> RankingData:
        """Return data with its categories coded as in the training; raise an error if its columns are
        not those that the ranker was fitted on.

        `categories_` has the categories of each categorical column, whose order gives their codes.

        Args:
            data: the data.
            where: the argument that holds it, for the error.
        """
        expected = Columns(self.n_features_in_, getattr(self, "feature_names_in_", None))
        check_columns(where, Columns.of(data), expected, "as in fit")
        return data.with_levels(self.categories_, where)


def _query(data: RankingData, qid: Any) -> RankingData:
    """Return the documents of the query `qid` as data of this query alone; raise an error if the
    data has no such query.
    """
    # Compared as text, so that the number 7 finds the query "7".
    is_asked_for = np.array([str(known_qid) == str(qid) for known_qid in data.qids], bool)
    if not is_asked_for.any():
        example = f", such as {data.qids[0]}" if data.n_queries else ""
        raise DataError(f"qid: found {qid}; expected one of {data.n_queries} queries{example}")
    return data.subset(np.flatnonzero(is_asked_for))
