"""A ranker that takes LightGBM's spellings: its arguments, its callbacks, its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tautrank.arguments import one_or_more, whole
from tautrank.arrays import Array
from tautrank.compat.callbacks import read_callbacks
from tautrank.compat.eval_sets import EvalArguments, eval_sets
from tautrank.compat.metrics import extra_metrics
from tautrank.compat.parameters import translated
from tautrank.data import RankingData
from tautrank.engines.training import fit
from tautrank.errors import OptionError
from tautrank.metrics import metric
from tautrank.ranker.estimator import Ranker
from tautrank.ranker.inputs import FitArguments, ranking_data

_INIT_MODEL = "expected init_model=, a model to add trees to"
_LEFT_OUT = "expected it left out"
# For arguments of LightGBM's and XGBoost's `fit` that have no counterpart: what to do instead.
_WHAT_TO_DO_INSTEAD = {
    "init_score": _INIT_MODEL,
    "base_margin": _INIT_MODEL,
    "xgb_model": _INIT_MODEL,
    "position": "expected propensities=, the probability that a user looked at each document",
    "eval_sample_weight": _LEFT_OUT,
    "eval_class_weight": _LEFT_OUT,
    "eval_init_score": _LEFT_OUT,
}


class LGBMRanker(Ranker):
    """A `Ranker` whose methods take the arguments of LightGBM's ranker, so that a script needs few
    changes.

    Its parameters are those of `Ranker`: the loss is the first one, and all names that
    ``lightgbm.train`` knows are parameters of the engine. `from_lightgbm` translates a dictionary
    of LightGBM's parameters. A saved model is read by either class.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = (X[:, 0] > 1) + 1 * (X[:, 0] > 0)
    >>> ranker = LGBMRanker("lambdarank", n_estimators=20, min_child_samples=5)
    >>> ranker = ranker.fit(X, y, group=[10] * 40, eval_set=[(X, y)], eval_group=[[10] * 40], eval_at=[1])
    >>> [*ranker.evals_result_["valid"]]
    ['ndcg@10', 'ndcg@1']
    >>> ranker.predict(X, pred_leaf=True).shape == (400, ranker.n_trees_)
    True
    """

    @classmethod
    def from_lightgbm(cls, params: Any = None, *, loss: Any = None, **more: Any) -> LGBMRanker:
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
        >>> ranker = LGBMRanker.from_lightgbm(params)
        >>> ranker.loss, ranker.n_estimators, ranker.random_state, ranker.get_params()["max_depth"]
        ('lightgbm:lambdarank', 30, 7, 4)
        >>> LGBMRanker.from_lightgbm(params, loss="ndcg-loss2++", lambdarank_truncation_level=20).loss
        ndcg-loss2++(k=20)
        """
        parameters = params.get_params() if hasattr(params, "get_params") else dict(params or {})
        return cls(**translated({**parameters, **more}, loss))

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
        callbacks: Any = None,
        **others: Any,
    ) -> LGBMRanker:
        """Train, as `Ranker.fit` and as LightGBM's ranker does.

        Args:
            X: features (array, frame, Arrow table, SciPy sparse matrix), NaN where missing; or
                `RankingData`.
            y: labels, finite and at least 0; or, with `RankingData`, the validation data.
            qid: the query of each row; or
            group: the number of rows of each query, in order.
            eval_set: validation data, ``(X, y, qid)`` or `RankingData`; or ``[(X, y)]`` with
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
            sample_weight: the same, as LightGBM calls it.
            propensities: as in `Ranker.fit`.
            feature_name: names of the columns of an array.
            categorical_feature: as the parameter of `Ranker`.
            init_model: as in `Ranker.fit`.
            callbacks: functions of a `Step`, as in `Ranker.fit`, and LightGBM's `early_stopping`,
                `log_evaluation`, `record_evaluation` and `reset_parameter` of the learning rate.
            **others: LightGBM's other arguments are an error that says what to use instead.

        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> LGBMRanker(n_estimators=3).fit(data, eval_set=[data, data], eval_names=["a", "b"]).evals_result_
        {'a': {'ndcg@10': [1.0, 1.0, 1.0]}, 'b': {'ndcg@10': [1.0, 1.0, 1.0]}}
        """
        _refuse_other_arguments(others, self._get_param_names())
        if weights is not None and sample_weight is not None:
            raise OptionError("weights, sample_weight: found both; expected one of them")
        beside = None
        if isinstance(X, RankingData) and isinstance(y, RankingData):
            beside, y = y, None
        names = None if isinstance(feature_name, str) else feature_name
        validation = EvalArguments(
            beside=beside,
            eval_set=eval_set,
            eval_group=eval_group,
            eval_qid=eval_qid,
            eval_X=eval_X,
            eval_y=eval_y,
            eval_names=eval_names,
        )
        from_callbacks = read_callbacks(one_or_more(callbacks or ()))

        arguments = FitArguments(
            train=ranking_data(X, y, qid, group, names),
            eval_set=eval_sets(validation),
            weights=sample_weight if weights is None else weights,
            propensities=propensities,
            init_model=init_model,
            callbacks=from_callbacks.callbacks,
            categorical_feature=categorical_feature,
            extra_metrics=extra_metrics(eval_metric, eval_at, metric(self.metric)),
            settings=from_callbacks.settings,
        )
        training = self._training(arguments)
        model, training_record = fit(training.engine, training.task, training.settings)
        self._keep(training.fitted(model, training_record))
        for record in from_callbacks.records:
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
            qid: the query of each row; or
            group: the number of rows of each query, as in `Ranker.predict`.
            num_iteration: number of the first trees to predict with; None or -1 for all.
            pred_leaf: whether to return the leaf of each document in each tree instead.
            pred_contrib: whether to return what each column of the model adds to each score, and in
                a last column where all scores start; `explain` says more.

        >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
        >>> LGBMRanker(n_estimators=3).fit(data).predict([[0.0], [1.0]], pred_leaf=True).tolist()
        [[0, 0, 0], [1, 1, 1]]
        """
        self._check_fitted("predict")
        n_trees = -1  # all, as in LightGBM
        if num_iteration is not None:
            n_trees = whole("num_iteration", num_iteration, least=-1)
        if n_trees < 1 and not pred_leaf and not pred_contrib:
            return super().predict(X, qid, group=group)

        # Documents query by query, and the matrix that the model scores, list features included.
        data, features = self._model_input(X, qid, group)
        model = self.model_ if n_trees < 1 else self.model_.truncated(n_trees)
        if pred_leaf:
            answer: Array = model.leaves(features, self.n_jobs)
        elif pred_contrib:
            answer = model.contributions(features, self.n_jobs)
        else:
            answer = model.predict(features, self.n_jobs, data.offsets)
        # Rows of a query may have been gathered: back to the order of the user's rows.
        return answer if data is X else data.in_source_order(answer)


def _refuse_other_arguments(others: Mapping[str, Any], parameters: Iterable[str]) -> None:
    """Raise an error for the first argument that `fit` does not know, if there is one: it says what
    to use instead of an argument of LightGBM's or XGBoost's `fit`.

    Args:
        others: the unknown arguments by name.
        parameters: the names of the parameters of the ranker.
    """
    for name, value in others.items():
        if name in parameters:
            raise OptionError(
                f"{name}: is a parameter of the ranker; expected Ranker({name}={value!r})"
            )
        # An unknown name is the error that Python itself would raise.
        if name not in _WHAT_TO_DO_INSTEAD:
            raise TypeError(f"fit() got an unexpected keyword argument '{name}'")
        raise OptionError(f"{name}: has no counterpart here; {_WHAT_TO_DO_INSTEAD[name]}")
