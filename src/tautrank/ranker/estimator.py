"""The scikit-learn estimator that puts a loss on an engine."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from tautrank.arguments import job_count, whole
from tautrank.arrays import place
from tautrank.data import RankingData
from tautrank.data.arrays import checked_features
from tautrank.engines import Callback, FittedModel, Record, Settings, Task, engine_for, engine_named, read_loss
from tautrank.engines.langevin import Langevin
from tautrank.errors import DataError, OptionError, TautrankError, TautrankWarning, unknown
from tautrank.json_values import or_nan
from tautrank.losses import Loss
from tautrank.metrics import Metric, metric
from tautrank.ranker.model_file import read_model_file, write_model_file

F64 = NDArray[np.float64]
Names = tuple[str, ...] | None

# LightGBM, XGBoost and CatBoost take seeds of 31 bits.
_SEEDS = 2**31
# Parameters that say how to train, whatever the loss and the engine are.
_OF_TRAINING = (
    "n_estimators", "learning_rate", "num_leaves", "early_stopping_rounds",
    "langevin", "n_jobs", "verbose", "eval_train",
)  # fmt: skip
# LETOR text leaves out features that are 0, the last ones too.
_PADDING = " (RankingData.with_n_features adds columns of zeros)"


class UnfittedError(TautrankError, NotFittedError):  # type: ignore[misc]
    """A ranker was asked for what it only has after `fit`."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Documents in the order a ranker puts them: query after query, the best document of each first.

    Args:
        qid: the query of each line.
        document: the row of the document in the data that was ranked.
        rank: 1 for the best document of a query.
        score: what it was ranked by.

    >>> ranking = Ranking(np.array([7, 7]), np.array([1, 0]), np.array([1, 2]), np.array([0.5, 0.1]))
    >>> ranking.top(1).document
    array([1])
    """

    qid: NDArray[Any]
    document: NDArray[np.int64]
    rank: NDArray[np.int64]
    score: F64

    def top(self, k: int) -> Ranking:
        """The best ``k`` documents of each query.

        Args:
            k: how many.
        """
        kept = self.rank <= whole("k", k, least=1)
        return Ranking(self.qid[kept], self.document[kept], self.rank[kept], self.score[kept])

    def __len__(self) -> int:
        return int(self.document.size)


class Ranker(BaseEstimator):  # type: ignore[misc]
    """A ranking model: trees that are fitted to a ranking loss and judged by a ranking metric.

    It is a scikit-learn estimator, for `GridSearchCV`, pipelines and `clone`. Results depend on the data, the
    parameters and ``random_state`` alone; with a loss of this library not on ``n_jobs``.

    Args:
        loss: a name (``"lambdarank"``, ``"ndcg-loss2++(k=5)"``), a loss made by `tautrank.loss`, or another tool's own
            objective: ``"lightgbm:lambdarank"``, ``"xgboost:rank:ndcg"``, ``"catboost:YetiRank"``, ...
        metric: a name or a metric: what is judged after each tree, stops training early, and is the `score`.
        engine: what grows the trees, ``"lightgbm"``; another tool's own objective is always trained by that tool.
        n_estimators: number of trees.
        learning_rate: what each tree is scaled by.
        num_leaves: leaves of a tree (for CatBoost the depth of that many leaves).
        early_stopping_rounds: stop when the metric has not improved on the validation data for this many trees, and
            keep the trees up to the best one. None trains and keeps all trees; so does `fit` without validation data.
        random_state: seed of the engine and of the loss: a whole number, a NumPy ``RandomState`` or ``Generator`` to
            draw one from, or None for another one each time.
        n_jobs: threads of engine and loss; None is all cores, or as many as ``OMP_NUM_THREADS`` says where that is set
            (joblib sets it in its workers); -1 is all cores.
        verbose: 0 or less for silence, 1 for progress on standard error, None for a bar if that is a terminal.
        eval_train: judge the training data after each tree too.
        langevin: `Langevin` (temperature, shrink_rate) adds noise to the gradients and shrinks the model before each
            tree, which leads out of local optima; what is judged, kept and saved is the shrunk model. With a loss of
            this library, or CatBoost's; None is off.
        **engine_parameters: any parameter of the engine, under the engine's own name, as ``min_data_in_leaf=50``;
            with LightGBM also ``categorical_feature``, the names or numbers of columns that hold category codes.

    Attributes:
        evals_result_: ``{"valid": {"ndcg@10": [...]}}``, and ``"train"`` if asked for: one value a tree of this fit.
        best_iteration_: how many trees give the best validation value; all of them without validation data.
        best_score_: that value, None without validation data.
        n_trees_: how many trees predict.
        model_: the trees; ``model_.booster`` is the engine's own object (``model_.model`` for CatBoost).
        n_features_in_: number of features.
        feature_names_in_: their names, if the data had names.

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
        loss: str | Loss = "lambdarank",
        metric: str | Metric = "ndcg@10",
        engine: str = "lightgbm",
        n_estimators: int = Settings.n_estimators,
        learning_rate: float = Settings.learning_rate,
        num_leaves: int = Settings.num_leaves,
        early_stopping_rounds: int | None = Settings.early_stopping_rounds,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int | None = None,
        eval_train: bool = False,
        langevin: Langevin | None = None,
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
        self._engine_parameters = engine_parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name, those of the engine included.

        Args:
            deep: of no effect: losses and metrics are values, not estimators.

        >>> Ranker(min_data_in_leaf=5).get_params()["min_data_in_leaf"]
        5
        """
        return {**super().get_params(deep=False), **self._engine_parameters}

    def set_params(self, **params: Any) -> Ranker:
        """Change parameters; a name that is not the ranker's own is the engine's, and checked by `fit`.

        Args:
            **params: by name.

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
        weights: Any = None,
        propensities: Any = None,
        init_model: Ranker | str | os.PathLike[str] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Ranker:
        """Train: ``fit(X, y, qid=qid, eval_set=(Xv, yv, qv))`` or ``fit(train, valid)`` with `RankingData`.

        Args:
            X: features (array, frame, Arrow table, SciPy sparse matrix), NaN where missing; or `RankingData`.
            y: labels, finite and at least 0; or, with `RankingData`, the validation data.
            qid: the query of each row; or
            group: the number of rows of each query, in order.
            eval_set: validation data, ``(X, y, qid)`` or `RankingData`; or, as LightGBM has it, ``[(X, y)]`` with
            eval_group: the number of rows of each of its queries, or
            eval_qid: the query of each of its rows; an array, or a list of one.
            eval_X, eval_y: its features and labels, as LightGBM has it since 4.7, instead of `eval_set`.
            weights: one a query (or one a row, alike within a query): they scale the loss, not the metric.
            propensities: one a row, for the softmax losses: the probability that a user looked at the document.
            init_model: a ranker, or the file of one, to add ``n_estimators`` trees to. With a loss of this library the
                result is the same bits as training in one go, unless the engine samples documents or features.
            callbacks: functions of one argument, a `Step`, called after each tree; training stops if one returns True.

        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> Ranker(n_estimators=3, early_stopping_rounds=2).fit(data, data).best_score_
        1.0
        """
        if isinstance(X, RankingData) and isinstance(y, RankingData):
            if eval_set is not None:
                raise OptionError(
                    "eval_set: validation data is given twice; expected it once, here or after the training data"
                )
            y, eval_set = None, y
        if eval_X is not None or eval_y is not None:
            eval_set = _set_of(eval_X, eval_y, eval_set)
        train = _ranking_data(X, y, qid, group)
        if train.n_documents == 0 or train.n_features == 0:
            raise DataError(
                f"X: found {train.n_documents} documents of {train.n_features} features; expected at least one of each"
            )
        valid = _validation(eval_set, eval_group, eval_qid, train)
        wanted = read_loss(self.loss)
        engine = engine_for(self.engine, wanted)
        extra = dict(self._engine_parameters)
        columns = extra.pop("categorical_feature", None)
        task = Task(
            train=train,
            loss=wanted,
            metric=metric(self.metric),
            valid=valid,
            weights=_query_weights(weights, train, "weights"),
            propensities=_propensities(propensities, train, wanted),
            categorical=_columns(columns, train),
            **_started(init_model, train, engine.name),
        )
        seed = _seed(self.random_state)
        own: dict[str, Any] = {name: getattr(self, name) for name in _OF_TRAINING}
        settings = Settings(**own, seed=seed, callbacks=tuple(callbacks), extra=extra)
        if valid is None:
            settings = dataclasses.replace(settings, early_stopping_rounds=None)
        model, record = engine.fit(task, settings)
        self._keep(model, record, train.feature_names)
        self._seed = seed
        return self

    def predict(self, X: Any) -> F64:
        """The score of each document, in the order of the rows.

        Args:
            X: features, as in `fit`; or `RankingData`.

        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> low, high = Ranker(n_estimators=3).fit(data).predict([[0.0], [1.0]])
        >>> bool(low < high)
        True
        """
        self._check_fitted("predict")
        features, names = (X.X, X.feature_names) if isinstance(X, RankingData) else checked_features(X)
        self._check_like_fit(features.shape[1], names, "X")
        job_count(self.n_jobs)
        return self.model_.predict(features, self.n_jobs)

    def score(self, X: Any, y: Any = None, qid: Any = None, *, group: Any = None, sample_weight: Any = None) -> float:
        """The metric on these documents, the mean over queries; greater is better.

        A metric that is a cost (``arp``) is negated, as scikit-learn has it for its scorers.

        Args:
            X: features, as in `fit`; or `RankingData`.
            y: labels.
            qid: the query of each row; or
            group: the number of rows of each query.
            sample_weight: weights for the mean, one a query (or one a row, alike within a query).
        """
        self._check_fitted("score")
        judge = metric(self.metric)
        data = _ranking_data(X, y, qid, group)
        weights = _query_weights(sample_weight, data, "sample_weight")
        value = judge.mean(self.predict(data), data.labels, data.offsets, weights)
        return value if judge.higher_is_better else -value

    def rank(self, X: Any, qid: Any = None, *, group: Any = None) -> Ranking:
        """Put the documents of each query in order, the best first; equal scores keep the order of the rows.

        Args:
            X: features, as in `fit`; or `RankingData`.
            qid: the query of each row; or
            group: the number of rows of each query; with neither all rows are one query, 0.

        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> ranking = Ranker(n_estimators=3).fit(data).rank([[0.0], [1.0], [0.5]], qid=["a", "a", "b"])
        >>> ranking.qid.tolist(), ranking.document.tolist(), ranking.rank.tolist()
        (['a', 'a', 'b'], [1, 0, 2], [1, 2, 1])
        """
        self._check_fitted("rank")
        if isinstance(X, RankingData):
            data, rows = X, np.arange(X.n_documents)
        else:
            n = _rows(X)
            if n == 0:
                qid, group = None, []
            elif qid is None and group is None:
                group = [n]
            with warnings.catch_warnings():
                # Ranking is gathering: there is nothing to warn of.
                warnings.simplefilter("ignore", TautrankWarning)
                data = RankingData.from_arrays(X, np.zeros(n), qid, group=group)
            rows = np.arange(n) if data.source_rows is None else data.source_rows
        scores = self.predict(data)
        query = np.repeat(np.arange(data.n_queries), data.sizes)
        order = np.lexsort((-scores, query))
        rank = np.arange(scores.size) - np.repeat(data.offsets[:-1], data.sizes) + 1
        return Ranking(data.qid_of_document, rows[order], rank, scores[order])

    @property
    def feature_importances_(self) -> F64:
        """What each feature added to the objective over all splits, as shares that sum to 1."""
        self._check_fitted("feature_importances_")
        return self.model_.importances()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted ranker to one file, in one step; there is no code in it, and no pickle.

        It holds the trees, the loss, the metric and all parameters, feature names, the training history and versions.
        The same ranker gives the same bytes.

        Args:
            path: where to, by custom ``*.taut``.

        >>> import tempfile
        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> ranker = Ranker(n_estimators=3).fit(data)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ranker.save(folder + "/model.taut")
        ...     loaded = Ranker.load(folder + "/model.taut")
        >>> bool((loaded.predict(data) == ranker.predict(data)).all())
        True
        """
        import tautrank

        self._check_fitted("save")
        parameters = self.get_params()
        for name in ("loss", "metric"):
            parameters[name] = str(parameters[name])
        if isinstance(self.langevin, Langevin):
            parameters["langevin"] = dataclasses.asdict(self.langevin)
        if not isinstance(self.random_state, (int, np.integer, type(None))):
            parameters["random_state"] = self._seed  # what was drawn from the generator
        names = getattr(self, "feature_names_in_", None)
        record = self._record
        meta = {
            "tautrank_version": tautrank.__version__,
            "engine": self.model_.tool,
            "engine_version": self.model_.version(),
            "loss": parameters["loss"],
            "metric": parameters["metric"],
            "parameters": parameters,
            "n_features": self.n_features_in_,
            "feature_names": None if names is None else names.tolist(),
            "training": {
                "seed": self._seed,
                "steps": record.steps,
                "n_trees": self.model_.n_trees,
                "best_iteration": record.best_iteration,
                "best_score": record.best_score,
                "history": record.history,
                "scale": self.model_.scale,
            },
        }
        write_model_file(path, meta, self.model_.member, self.model_.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ranker:
        """Read a ranker that `save` wrote; it predicts the same bits.

        Loss and metric come back as text. Loading a file runs no code from it, whoever made it.

        Args:
            path: where from.
        """
        meta, content = read_model_file(path)
        try:
            described = _Described(meta)
            ranker = cls(**described.parameters)
            model = engine_named(described.engine).model_class.from_bytes(content, described.n_features)
            model.scale = described.scale
        except (DataError, OptionError) as error:
            raise DataError(f"{os.fspath(path)}: {error}") from None
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            raise DataError(
                f"{os.fspath(path)}: meta.json lacks what describes a model; expected a file written by Ranker.save"
            ) from None
        ranker._keep(model, described.record, described.feature_names)
        ranker._seed = described.seed
        return ranker

    def _keep(self, model: FittedModel, record: Record, names: Names) -> None:
        self.model_ = model
        self._record = record
        self.evals_result_ = record.history
        self.best_iteration_ = record.best_iteration
        self.best_score_ = record.best_score
        self.n_trees_ = model.n_trees
        self.n_features_in_ = model.n_features
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_fitted(self, what: str) -> None:
        if not hasattr(self, "model_"):
            raise UnfittedError(f"{what}: this Ranker is not fitted; expected a call of fit before")

    def _check_like_fit(self, n_features: int, names: Names, where: str) -> None:
        fitted = getattr(self, "feature_names_in_", None)
        _check_columns(where, n_features, names, self.n_features_in_, fitted, "as in fit")


class _Described:
    """``meta.json`` with every type checked, so that a foreign file cannot surprise what uses it."""

    def __init__(self, meta: dict[str, Any]) -> None:
        training = meta["training"]
        self.engine = _typed(meta["engine"], str)
        self.n_features = _typed(meta["n_features"], int)
        self.parameters: dict[str, Any] = _typed(meta["parameters"], dict)
        langevin = self.parameters.get("langevin")
        if langevin is not None:
            self.parameters["langevin"] = Langevin(langevin["temperature"], langevin["shrink_rate"])
        names = meta["feature_names"]
        self.feature_names = None if names is None else tuple(_typed(name, str) for name in _typed(names, list))
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ValueError
        self.seed = _typed(training["seed"], int)
        # Version 0.1.0 wrote the leaves of a shrunk model as they are in its scores: no scale.
        self.scale = _typed(training.get("scale", 1.0), float)
        if not 0 < self.scale <= 1:
            raise ValueError
        best = training["best_score"]
        self.record = Record(
            history={
                _typed(part, str): {
                    name: [or_nan(value) for value in _typed(values, list)]
                    for name, values in _typed(by_metric, dict).items()
                }
                for part, by_metric in _typed(training["history"], dict).items()
            },
            best_iteration=_typed(training["best_iteration"], int),
            best_score=None if best is None else float(best),
            steps=_typed(training["steps"], int),
        )


def _typed(value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise ValueError
    return value


def _ranking_data(X: Any, y: Any, qid: Any, group: Any) -> RankingData:
    if isinstance(X, RankingData):
        if y is not None or qid is not None or group is not None:
            raise OptionError("X: is RankingData, which has labels and queries; expected no y, qid or group with it")
        return X
    if y is None:
        raise DataError("y: found none; expected one label a document")
    if qid is None and group is None:
        raise DataError(
            "qid, group: found neither; expected one of them, to say which documents belong together (inside a "
            "pipeline or GridSearchCV: set_fit_request(qid=True) and set_score_request(qid=True))"
        )
    _check_not_empty(X)
    return RankingData.from_arrays(X, y, qid, group=group)


def _validation(given: Any, group: Any, qid: Any, train: RankingData) -> RankingData | None:
    """Validation data as given, its queries apart from it or not; checked against the training data."""
    queries = {name: value for name, value in (("group", group), ("qid", qid)) if value is not None}
    if given is None and not queries:
        return None
    if len(queries) == 2:
        raise OptionError("eval_group, eval_qid: found both; expected one of them")
    valid, *apart = map(_only_one, (given, *queries.values()))
    if queries or not isinstance(valid, RankingData):
        if not queries and isinstance(valid, (tuple, list)) and len(valid) == 2:
            raise DataError("eval_group, eval_qid: found neither; expected one of them beside features and labels")
        if not isinstance(valid, (tuple, list)) or len(valid) != 3 - len(queries):
            beside = "".join(f" beside eval_{name}" for name in queries)
            forms = "(X, y, qid) or RankingData, or [(X, y)] beside eval_group or eval_qid"
            raise DataError(f"eval_set: found something else{beside}; expected {'[(X, y)]' if queries else forms}")
        try:
            _check_not_empty(valid[0])
            valid = RankingData.from_arrays(*valid, **dict(zip(queries, apart, strict=True)))
        except DataError as error:
            raise DataError(f"eval_set: {error}") from None
    as_in = "as in the training data"
    _check_columns("eval_set", valid.n_features, valid.feature_names, train.n_features, train.feature_names, as_in)
    return valid


def _set_of(X: Any, y: Any, given: Any) -> list[Any]:
    """What `eval_X` and `eval_y` say, in the form of `eval_set`; as in LightGBM, a tuple holds several data sets."""
    if given is not None:
        raise OptionError("eval_set, eval_X, eval_y: validation data is given twice; expected it once")
    for name, part in (("eval_X", X), ("eval_y", y)):
        if part is None:
            raise OptionError(f"{name}: found none; expected eval_X and eval_y together")
        if isinstance(part, tuple) and len(part) != 1:
            raise OptionError(f"{name}: found {len(part)} data sets; expected one")
    return [tuple(part[0] if isinstance(part, tuple) else part for part in (X, y))]


def _started(given: Any, train: RankingData, engine: str) -> dict[str, Any]:
    """What a `Task` has to know of the model to go on from."""
    if given is None:
        return {}
    start = given if isinstance(given, Ranker) else Ranker.load(given)
    start._check_fitted("init_model")
    if start.model_.tool != engine:
        raise OptionError(f"init_model: was trained by {start.model_.tool}; expected {engine}, which is to go on")
    start._check_like_fit(train.n_features, train.feature_names, "init_model, X")
    return {"start": start.model_, "start_step": start._record.steps}


def _only_one(given: Any) -> Any:
    """LightGBM and XGBoost take a list of data sets; a list of one is as good as the one."""
    is_list_of_one = isinstance(given, list) and len(given) == 1 and not np.isscalar(given[0])
    return given[0] if is_list_of_one else given


def _rows(X: Any) -> int:
    shape = getattr(X, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    return len(X) if hasattr(X, "__len__") else 0


def _check_not_empty(X: Any) -> None:
    if _rows(X) == 0:
        raise DataError("X: found no documents; expected at least one")


def _check_columns(where: str, n_features: int, names: Names, expected: int, known: Any, as_in: str) -> None:
    """Refuse columns that differ from those `expected` in number or, where both have names, in their names."""
    if n_features != expected:
        hint = _PADDING if n_features < expected else ""
        raise DataError(f"{where}: found {n_features} features; expected {expected}, {as_in}{hint}")
    pairs = zip(names, known, strict=True) if names is not None and known is not None else ()
    for column, (name, wanted) in enumerate(pairs):
        if name != wanted:
            raise DataError(f"{where}: column {column} is '{name}'; expected '{wanted}', {as_in}")


def _floats(name: str, values: ArrayLike, expected: str) -> F64:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name}: found something else than numbers; expected {expected}") from None


def _query_weights(weights: ArrayLike | None, train: RankingData, name: str) -> F64 | None:
    if weights is None:
        return None
    values = _floats(name, weights, "one a query")
    if values.ndim != 1 or values.size not in (train.n_queries, train.n_documents):
        raise DataError(
            f"{name}: found shape {values.shape}; expected {train.n_queries}, one a query, or "
            f"{train.n_documents}, one a document"
        )
    if values.size != train.n_queries:
        values = train.in_document_order(values)
        by_query = values[train.offsets[:-1]]
        unlike = values != np.repeat(by_query, train.sizes)
        if unlike.any():
            query, _ = place(train.offsets, int(np.argmax(unlike)))
            raise DataError(
                f"{name}: documents of query {train.qids[query]} have unlike weights; expected one weight "
                "for all documents of a query"
            )
        values = by_query
    wrong = ~((values >= 0) & (values < np.inf))
    if wrong.any():
        query = int(np.argmax(wrong))
        raise DataError(
            f"{name}: query {train.qids[query]} has the weight {values[query]:g}; expected a finite number "
            "of at least 0"
        )
    return values


def _propensities(propensities: ArrayLike | None, train: RankingData, wanted: Any) -> F64 | None:
    if propensities is None:
        return None
    from tautrank.losses import SoftmaxLoss

    if not isinstance(wanted, SoftmaxLoss):
        raise OptionError(f"propensities: the loss {wanted} has no use for them; expected listnet or xendcg")
    values = _floats("propensities", propensities, "one a document")
    if values.shape != (train.n_documents,):
        raise DataError(f"propensities: found shape {values.shape}; expected {train.n_documents}, one a document")
    return np.asarray(train.in_document_order(values))


def _columns(given: Any, train: RankingData) -> tuple[int, ...]:
    """Columns by number or name, as numbers."""
    if given is None or (isinstance(given, str) and given in ("", "auto")):
        return ()
    if isinstance(given, (str, int, np.integer)):
        given = [given]
    found = []
    for column in given:
        if isinstance(column, str):
            if train.feature_names is None:
                raise OptionError(
                    f"categorical_feature: found the name '{column}', but the data has no names; expected "
                    "numbers of columns"
                )
            if column not in train.feature_names:
                raise unknown("column of categorical_feature", column, train.feature_names)
            found.append(train.feature_names.index(column))
        else:
            found.append(whole("categorical_feature", column, least=0, most=train.n_features - 1))
    return tuple(dict.fromkeys(found))


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0] % _SEEDS)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_SEEDS))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_SEEDS))
    return whole("random_state", random_state, least=0) % _SEEDS
