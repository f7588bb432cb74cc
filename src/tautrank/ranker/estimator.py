"""The scikit-learn estimator that trains a loss on an engine."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable
from typing import IO, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from tautrank.arguments import job_count, one_or_more, whole
from tautrank.arrays import F64, Array, dense, query_of, ranks_in
from tautrank.data import RankingData, StreamedRows
from tautrank.engines import DEFAULT_ENGINE, Callback, Settings, Task, engine_for, read_loss
from tautrank.engines.boosting import fit
from tautrank.engines.committee import Committee, CommitteeEngine
from tautrank.engines.langevin import Langevin
from tautrank.engines.registry import usable_threads
from tautrank.errors import DataError, OptionError, TautrankError, TautrankWarning
from tautrank.metrics import Metric, metric
from tautrank.ranker import inputs
from tautrank.ranker.answers import Explanation, Ranking
from tautrank.ranker.list_features import PROBE_TREES, with_list_features
from tautrank.ranker.model_file import Fitted, read_ranker, write_ranker


class UnfittedError(TautrankError, NotFittedError):  # type: ignore[misc]
    """A ranker was asked for something that it only has after `fit`."""


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
        refit: True to choose the number of trees by cross-validation, over training and validation
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
        refit: bool = False,
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
        self.refit = refit
        self.speed = speed
        self._engine_parameters = engine_parameters

    @classmethod
    def from_lightgbm(cls, params: Any = None, *, loss: Any = None, **more: Any) -> Ranker:
        """Make the ranker that trains what LightGBM trains with these parameters; one error lists
        all wrong names.

        Parameters that are not given have LightGBM's defaults: 100 trees at a learning rate of 0.1,
        no early stopping, and NDCG as LightGBM computes it, at the largest of ``eval_at``.

        Args:
            params: parameters under any of LightGBM's names; or an ``LGBMRanker``.
            loss: a loss of this library instead of LightGBM's objective;
                ``lambdarank_truncation_level``, ``label_gain``, ``lambdarank_norm`` and ``sigmoid``
                become its parameters.
            **more: more such parameters.

        >>> params = {"objective": "lambdarank", "num_boost_round": 30, "eta": 0.1, "max_depth": 4, "seed": 7}
        >>> ranker = Ranker.from_lightgbm(params)
        >>> ranker.loss, ranker.n_estimators, ranker.random_state, ranker.get_params()["max_depth"]
        ('lightgbm:lambdarank', 30, 7, 4)
        >>> Ranker.from_lightgbm(params, loss="ndcg-loss2++", lambdarank_truncation_level=20).loss
        ndcg-loss2++(k=20)
        """
        given = params.get_params() if hasattr(params, "get_params") else dict(params or {})
        return cls(**inputs.translated({**given, **more}, loss))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters by name, those of the engine included.

        Args:
            deep: has no effect: losses and metrics are values, not estimators.

        >>> Ranker(min_data_in_leaf=5).get_params()["min_data_in_leaf"]
        5
        """
        return {**super().get_params(deep=False), **self._engine_parameters}

    def set_params(self, **params: Any) -> Ranker:
        """Change parameters; a name that is not the ranker's own is a parameter of the engine,
        checked by `fit`.

        Args:
            **params: values by name.

        >>> Ranker().set_params(num_leaves=7, lambda_l2=1.0).get_params()["lambda_l2"]
        1.0
        """
        own = self._get_param_names()
        for name, value in params.items():
            if name in own:
                setattr(self, name, value)
            else:
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        eval_set: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_names: Any = None,
        eval_metric: Any = None,
        eval_at: Any = None,
        weights: Any = None,
        sample_weight: Any = None,
        propensities: Any = None,
        feature_name: Any = None,
        categorical_feature: Any = None,
        init_model: Any = None,
        callbacks: Iterable[Callback] | None = None,
        **others: Any,
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
            eval_set: validation data, ``(X, y, qid)`` or `RankingData`; or, as in LightGBM,
                ``[(X, y)]`` with
            eval_group: the number of rows of each of its queries, or
            eval_qid: the query of each of its rows; an array, or a list of one. A list of several
                sets, with a list of their groups or queries, is judged after each tree; the first
                one decides early stopping.
            eval_X, eval_y: features and labels of the validation data, as in LightGBM 4.7, instead
                of `eval_set`.
            eval_names: names of the validation sets in `evals_result_`; by default valid, valid_1,
                ...
            eval_metric: further metrics to compute after each tree: names or metrics, one or
                several.
            eval_at: cutoffs of those metrics; without `eval_metric`, of NDCG.
            weights: one per query (or one per row, equal within a query): they scale the loss, not
                the metric.
            sample_weight: the same, as scikit-learn calls it.
            propensities: one per row, for the softmax losses: the probability that a user looked at
                the document. Labels are then clicks; see `tautrank.losses.SoftmaxLoss`.
            feature_name: names of the columns of an array, as in LightGBM.
            categorical_feature: as the parameter of `Ranker`.
            init_model: a ranker, or anything that `load` takes, to add ``n_estimators`` trees to.
                With a loss of this library the result is the same bits as training in one go,
                unless the engine samples documents or features, or rounds gradients at random
                (``speed="fast"``).
            callbacks: functions of one argument, a `Step`, called after each tree; training stops
                if one returns True. Of LightGBM's, `early_stopping`, `log_evaluation`,
                `record_evaluation` and `reset_parameter` of the learning rate do here what they do
                there.
            **others: LightGBM's other arguments are an error that says what to use instead.

        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> Ranker(n_estimators=3, early_stopping_rounds=2).fit(data, data).best_score_
        1.0
        """
        inputs.refuse_arguments(others, self._get_param_names())
        beside = y if isinstance(X, RankingData) and isinstance(y, RankingData) else None
        y = y if beside is None else None
        names = None if isinstance(feature_name, str) else feature_name
        train = inputs.ranking_data(X, y, qid, group, names)
        if train.n_documents == 0 or train.n_features == 0:
            found = f"{train.n_documents} documents of {train.n_features} features"
            raise DataError(f"X: found {found}; expected at least one of each")
        loss = read_loss(self.loss)
        if self.members is not None:
            of = loss.of if isinstance(loss, Committee) else (loss,)
            loss = Committee(of, self.members, getattr(loss, "weights", "equal"))
        engine = engine_for(self.engine, loss)
        start = None if init_model is None else self._start(init_model, engine.name)
        if start is not None:
            train = start._like_fit(train, "init_model, X")
        if weights is not None and sample_weight is not None:
            raise OptionError("weights, sample_weight: found both; expected one of them")
        weights = sample_weight if weights is None else weights
        valid, sets = inputs.validation_data(
            beside, eval_set, eval_group, eval_qid, eval_X, eval_y, train, eval_names
        )
        inputs.check_streams(
            train, valid, engine.name, list_features=self.list_features, refit=self.refit
        )
        judge = metric(self.metric)
        if train.X.dtype == np.float64 and engine.name not in ("lightgbm", CommitteeEngine.name):
            rounded = f"X: has values above 2^24 that {engine.name} rounds to float32; lightgbm keeps them"
            warnings.warn(rounded, TautrankWarning, stacklevel=2)
        extra = dict(self._engine_parameters)
        columns = extra.pop("categorical_feature", None)
        columns = columns if categorical_feature is None else categorical_feature
        if extra.get("monotone_constraints") is not None:
            extra["monotone_constraints"] = inputs.constraints(extra["monotone_constraints"], train)
        task = Task(
            train=train,
            loss=loss,
            metric=judge,
            metrics=inputs.judging(eval_metric, eval_at, judge),
            valid=valid,
            sets=sets,
            weights=inputs.query_weights(weights, train, "weights"),
            propensities=inputs.document_propensities(propensities, train, loss),
            categorical=inputs.category_columns(columns, train),
            start=None if start is None else start.model_,
            start_step=0 if start is None else start._fitted.record.steps,
        )
        seed = inputs.drawn_seed(self.random_state)
        own = {field.name for field in dataclasses.fields(Settings)} & {*self._get_param_names()}
        given = {name: getattr(self, name) for name in own}
        called, changed, records = inputs.from_callbacks(one_or_more(callbacks or ()))
        settings = Settings(**{**given, **changed}, seed=seed, callbacks=called, extra=extra)
        if valid is None and not self.refit:
            settings = dataclasses.replace(settings, early_stopping_rounds=None)
        trees = min(settings.n_estimators, PROBE_TREES)
        probe = dataclasses.replace(
            settings, n_estimators=trees, verbose=0, callbacks=(), refit=False
        )
        before = None if start is None else start.list_features_
        task, lists = with_list_features(
            self.list_features,
            task,
            lambda task: fit(engine, task, probe),
            settings.threads,
            before,
        )
        self._keep(
            Fitted(*fit(engine, task, settings), train.feature_names, lists, train.categories)
        )
        for record in records:
            record.update(self.evals_result_)
        return self

    def predict(
        self,
        X: Any,
        qid: Any = None,
        *,
        group: Any = None,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
    ) -> Array:
        """Return the score of each document, in the order of the rows.

        Args:
            X: features, as in `fit`; or `RankingData`.
            qid: the query of each row, which the scores depend on with list features or
                self-attention; or
            group: the number of rows of each query; with neither, all rows are one list.
            num_iteration: number of the first trees to predict with; None or -1 for all.
            pred_leaf: whether to return the leaf of each document in each tree instead.
            pred_contrib: whether to return what each column of the model adds to each score, and in
                a last column where all scores start; `explain` says more.

        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> low, high = Ranker(n_estimators=3).fit(data).predict([[0.0], [1.0]])
        >>> bool(low < high)
        True
        """
        self._check_fitted("predict")
        plain = (
            qid is None
            and group is None
            and num_iteration is None
            and not (pred_leaf or pred_contrib)
        )
        if (
            plain
            and self.list_features_ is None
            and not self.categories_
            and not self.model_.by_list
        ):
            rows = inputs.plain_rows(X, self.n_features_in_)
            if rows is not None:
                return self.model_.predict(rows, self.n_jobs)
        data = inputs.documents(X, qid, group)
        job_count(self.n_jobs)
        inputs.check_streams(data, None, "", list_features=self.list_features_)
        features = self._columns(self._like_fit(data, "X").X, data)
        trees = whole("num_iteration", -1 if num_iteration is None else num_iteration, least=-1)
        model = self.model_ if trees < 1 else self.model_.first(trees)
        if pred_leaf or pred_contrib:
            found: Array = (model.leaves if pred_leaf else model.contributions)(
                features, self.n_jobs
            )
        else:
            found = model.predict(features, self.n_jobs, data.offsets)
        return found if data is X else data.in_source_order(found)

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
        judge = metric(self.metric)
        data = inputs.ranking_data(X, y, qid, group)
        weights = inputs.query_weights(sample_weight, data, "sample_weight")
        return judge.sign * judge.mean(self.predict(data), data, weights=weights)

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
        rows = (
            np.arange(data.n_documents)
            if data is X or data.source_rows is None
            else data.source_rows
        )
        scores = self.predict(data)
        order = np.lexsort((-scores, query_of(data.offsets)))
        named = None if data.doc_ids is None else data.doc_ids[order]
        return Ranking(
            data.qid_of_document, rows[order], ranks_in(data.offsets), scores[order], named
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
            at = np.flatnonzero([str(each) == str(qid) for each in data.qids])
            if at.size == 0:
                example = f", such as {data.qids[0]}" if data.n_queries else ""
                raise DataError(
                    f"qid: found {qid}; expected one of {data.n_queries} queries{example}"
                )
            data = data.subset(at)
        data = self._like_fit(data, "X")
        if isinstance(data.X, StreamedRows):
            data = dataclasses.replace(data, X=data.X.read())
        lists, features = self.list_features_, self._columns(data.X, data)
        parts = self.model_.contributions(features, self.n_jobs)
        names = getattr(
            self, "feature_names_in_", [f"f{column}" for column in range(1, data.n_features + 1)]
        )
        return Explanation(
            documents=np.arange(data.n_documents) if data.doc_ids is None else data.doc_ids,
            features=tuple(map(str, names)),
            values=dense(data.X),
            contributions=parts[:, :-1] if lists is None else lists.by_source(parts[:, :-1].T).T,
            base=float(parts[0, -1]) if len(parts) else 0.0,
            scores=self.model_.predict(features, self.n_jobs),
            predict=lambda rows: self.model_.predict(self._columns(rows, data), self.n_jobs),
            by_list=lists is not None,
        )

    @property
    def feature_importances_(self) -> F64:
        """What each feature contributed to the objective over all splits, as shares that sum to 1.

        List features count for the feature that they are made from; ``model_.importances()`` has
        them one by one.
        """
        self._check_fitted("feature_importances_")
        shares = self.model_.importances()
        return shares if self.list_features_ is None else self.list_features_.by_source(shares)

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
        if not isinstance(self.random_state, (int, np.integer, type(None))):
            parameters["random_state"] = (
                self._fitted.record.seed
            )  # what was drawn from the generator
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

    def _start(self, given: Any, engine: str) -> Ranker:
        """Return the ranker to continue from."""
        start = given if isinstance(given, Ranker) else Ranker.load(given)
        start._check_fitted("init_model")
        if engine == CommitteeEngine.name:
            raise OptionError(
                "init_model: found a committee, which cannot continue a model; expected one loss"
            )
        if start.model_.tool != engine:
            raise OptionError(
                f"init_model: was trained by {start.model_.tool}; expected a model of {engine}"
            )
        return start

    def _keep(self, fitted: Fitted) -> None:
        model, record, names, lists, levels = fitted
        self._fitted = fitted
        self.model_ = model
        self.categories_ = dict(levels)
        self.list_features_ = lists
        self.evals_result_ = record.history
        self.best_iteration_ = record.best_iteration
        self.best_score_ = record.best_score
        self.n_trees_ = model.n_trees
        self.n_features_in_ = model.n_features - (0 if lists is None else lists.width)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _columns(self, X: Any, data: RankingData) -> Any:
        """Return the columns of the model: features, and list features of the lists of ``data``."""
        lists = self.list_features_
        return X if lists is None else lists.transform(X, data.offsets, usable_threads(self.n_jobs))

    def _check_fitted(self, what: str) -> None:
        if not hasattr(self, "model_"):
            raise UnfittedError(f"{what}: this Ranker is not fitted; expected a call of fit before")

    def _like_fit(self, data: RankingData, where: str) -> RankingData:
        """Return data with the codes of `categories_`, if it has the columns that the ranker was
        fitted on.
        """
        fitted = getattr(self, "feature_names_in_", None)
        inputs.check_columns(
            where, data.n_features, data.feature_names, self.n_features_in_, fitted, "as in fit"
        )
        return data.with_levels(self.categories_, where)
