"""Validation data in LightGBM's spellings, and the sentence for each thing that can be wrong."""

from __future__ import annotations

import inspect
from functools import partial

import lightgbm
import numpy as np
import pytest

import tautrank as tr
from tautrank.compat import LGBMRanker
from tests.ranker_examples import QUICK


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=600)), 0, 4)
    return tr.RankingData.from_arrays(X, y, group=[15] * 40)


TRAIN, VALID = data(), data(seed=1)
XV, YV, QV = VALID.X, VALID.labels, VALID.qid_of_document

ranker = partial(LGBMRanker, **{**QUICK, "n_estimators": 6, "num_leaves": 7})


@pytest.mark.parametrize(
    "spelling",
    [
        {"eval_set": VALID},
        {"eval_set": [VALID]},
        {"eval_set": (XV, YV, QV)},
        {"eval_set": [(XV, YV, QV)]},
        {"eval_set": [(XV, YV)], "eval_group": VALID.sizes},
        {"eval_set": [(XV, YV)], "eval_group": [VALID.sizes]},
        {"eval_set": [(XV, YV)], "eval_qid": [QV]},
        {"eval_X": XV, "eval_y": YV, "eval_qid": QV},
        {"eval_X": (XV,), "eval_y": (YV,), "eval_group": [VALID.sizes], "eval_names": "valid"},
    ],
    ids=lambda spelling: ",".join(spelling),
)
def test_one_validation_set_in_every_spelling(spelling):
    expected = tr.Ranker(**ranker().get_params()).fit(TRAIN, VALID)
    fitted = ranker().fit(TRAIN, **spelling)
    assert fitted.evals_result_ == expected.evals_result_
    np.testing.assert_array_equal(fitted.predict(XV), expected.predict(XV))


def test_validation_data_of_one_query_gives_its_size_alone_or_in_a_list():
    one = VALID.subset([0])
    expected = ranker().fit(TRAIN, one).evals_result_
    for sizes in ([one.n_documents], [[one.n_documents]], one.sizes):
        fitted = ranker().fit(TRAIN, eval_set=[(one.X, one.labels)], eval_group=sizes)
        assert fitted.evals_result_ == expected


TWICE = "eval_set, eval_X, eval_y: validation data is given twice; expected it once"
NO_QUERIES = "eval_group, eval_qid: found neither; expected one of them beside features and labels"
WRONG = {
    "beside the training data and as eval_set": ([TRAIN, VALID], {"eval_set": VALID}, TWICE),
    "beside the training data and as eval_X": (
        [TRAIN, VALID],
        {"eval_X": XV, "eval_y": YV, "eval_group": VALID.sizes},
        TWICE,
    ),
    "no queries in eval_set": ([TRAIN], {"eval_set": (XV, YV)}, NO_QUERIES),
    "no queries of eval_X": ([TRAIN], {"eval_X": XV, "eval_y": YV}, NO_QUERIES),
    "groups and queries": (
        [TRAIN],
        {"eval_set": [(XV, YV)], "eval_group": [3], "eval_qid": [3]},
        "eval_group, eval_qid: found both; expected one of them",
    ),
    "groups of data that has them": (
        [TRAIN],
        {"eval_set": VALID, "eval_group": [3]},
        "eval_set: found something else beside eval_group; expected [(X, y)]",
    ),
    "no labels": (
        [TRAIN],
        {"eval_X": XV, "eval_group": VALID.sizes},
        "eval_y: found none; expected eval_X and eval_y together",
    ),
    "features of two sets, labels of one": (
        [TRAIN],
        {"eval_X": (XV, XV), "eval_y": (YV,), "eval_group": VALID.sizes},
        "eval_X, eval_y: found different numbers of data sets; expected one y for each X",
    ),
    "a number": (
        [TRAIN],
        {"eval_set": 5},
        "eval_set: found something else; expected (X, y, qid) or RankingData, "
        "or [(X, y)] beside eval_group or eval_qid",
    ),
    "labels of another length": (
        [TRAIN],
        {"eval_set": [(XV, YV[:-1])], "eval_qid": QV},
        "eval_set: y: found 599 labels, but X has 600 rows",
    ),
    "a set without documents": (
        [TRAIN],
        {"eval_set": (XV[:0], YV[:0], QV[:0])},
        "eval_set: X: found no documents; expected at least one",
    ),
    "a set of other columns": (
        [TRAIN],
        {"eval_set": [VALID, (XV[:, :3], YV, QV)]},
        "eval_set: found 3 features; expected 4, as in the training data",
    ),
}


@pytest.mark.parametrize(("positional", "spelling", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_validation_data_is_one_sentence(positional, spelling, sentence):
    with pytest.raises(tr.TautrankError) as caught:
        ranker(early_stopping_rounds=3).fit(*positional, **spelling)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_script_for_lightgbm_runs_with_one_line_changed(capfd):
    parameters = {
        "boosting_type": "gbdt",
        "n_estimators": 5,
        "min_child_samples": 5,
        "subsample": 0.8,
        "verbose": -1,
    }
    theirs = lightgbm.LGBMRanker(**parameters)
    ours = LGBMRanker("lightgbm:lambdarank", metric="ndcg(empty=one)@10", **parameters)
    apart, pairs = {"eval_X": XV, "eval_y": YV}, {"eval_set": [(XV, YV)]}
    known = inspect.signature(lightgbm.LGBMRanker.fit).parameters  # LightGBM has `eval_X` since 4.7
    for model, valid in ((theirs, apart if "eval_X" in known else pairs), (ours, apart)):
        model.fit(TRAIN.X, TRAIN.labels, group=TRAIN.sizes, **valid, eval_group=[VALID.sizes])

    assert len(ours.evals_result_["valid"]["ndcg(empty=one)@10"]) == 5
    assert np.corrcoef(theirs.predict(XV), ours.predict(XV))[0, 1] > 0.9
    assert "trees" not in capfd.readouterr().err  # -1 is LightGBM's word for silence
