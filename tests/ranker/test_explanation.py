"""Contributions sum to scores, are the Shapley values of their definition, and the changes swap the
documents.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tautrank as tr
from tautrank.errors import DataError, OptionError

DATA = tr.simulate.simulate_web_search(60, n_features=16, mean_length=12, seed=3)
KINDS = {
    "lightgbm": {},
    "langevin": {"langevin": tr.Langevin(1e6, 0.5)},
    "xgboost": {"engine": "xgboost"},
    "committee": {"loss": ["lambdarank", "mse"]},
    "committee of tools": {"loss": ["lambdarank", "xgboost:rank:ndcg"]},
    "list features": {"list_features": True},
    "catboost": {"loss": "catboost:YetiRank"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_sum_to_the_scores(kind):
    for tool in ("xgboost", "catboost"):
        if tool in str(KINDS[kind]) or "tools" in kind:
            pytest.importorskip(tool if tool in str(KINDS[kind]) else "xgboost")
    ranker = tr.Ranker(**{"n_estimators": 30, **KINDS[kind]}).fit(DATA)
    explained = ranker.explain(DATA)
    np.testing.assert_array_equal(explained.scores, ranker.predict(DATA))
    total = explained.base + explained.contributions.sum(axis=1)
    np.testing.assert_allclose(total, explained.scores, rtol=0, atol=1e-6)
    assert explained.contributions.shape == DATA.X.shape


def test_contributions_are_shapley_values_of_their_definition():
    """Brute force over all subsets: unknown features follow both branches by how many training
    documents went there.
    """
    x = DATA.X[:, :4]
    ranker = tr.Ranker("mse", n_estimators=3, num_leaves=6).fit(x, DATA.labels, group=DATA.sizes)
    trees = ranker.model_.booster.dump_model()["tree_info"]

    def value(node, row, known):
        if "leaf_value" in node:
            return node["leaf_value"]
        left, right = node["left_child"], node["right_child"]
        if node["split_feature"] in known:
            return value(
                left if row[node["split_feature"]] <= node["threshold"] else right, row, known
            )
        count = [each.get("internal_count", each.get("leaf_count")) for each in (left, right)]
        return (count[0] * value(left, row, known) + count[1] * value(right, row, known)) / sum(
            count
        )

    for row, found in zip(x[:5], ranker.explain(x[:5]).contributions, strict=True):
        for feature in range(4):
            others, expected = [each for each in range(4) if each != feature], 0.0
            for size in range(4):
                weight = math.factorial(size) * math.factorial(3 - size) / math.factorial(4)
                for known in itertools.combinations(others, size):
                    gain = (
                        value(t["tree_structure"], row, {*known, feature})
                        - value(t["tree_structure"], row, {*known})
                        for t in trees
                    )
                    expected += weight * sum(gain)
            assert abs(found[feature] - expected) < 1e-9


@pytest.mark.parametrize("lists", [None, True])
def test_why_and_the_changes_that_swap(lists):
    ranker = tr.Ranker(n_estimators=30, list_features=lists).fit(DATA)
    explained = ranker.explain(DATA, qid=DATA.qids[4])
    rows = slice(DATA.offsets[4], DATA.offsets[5])
    np.testing.assert_array_equal(explained.scores, ranker.predict(DATA)[rows])
    order = np.argsort(-explained.scores)
    swapped = 0
    for high, low in itertools.pairwise(order):
        why = explained.why(high, low)
        assert abs(why.differences.sum() - (why.score_above - why.score_below)) < 1e-9
        assert (np.diff(np.abs(why.differences)) <= 0).all()
        if why.changes:
            swapped += 1
            changed = np.array(explained.values)
            columns = [explained.features.index(name) for name in why.changes]
            changed[low, columns] = explained.values[high, columns]
            scores = ranker.predict(changed)
            assert scores[low] == why.score_after > scores[high]
        assert "score" in str(why)
        assert why.to_dict()["above"] == high
        assert why.to_frame().shape == (16, 3)
    assert swapped > 0
    assert explained.to_frame().shape == (len(order), 18)
    with pytest.raises(DataError, match="expected the one with the greater score first"):
        explained.why(order[-1], order[0])
    with pytest.raises(DataError, match="above: found document 99"):
        explained.why(99, 0)


def test_what_cannot_be_explained_is_one_sentence():
    with pytest.raises(DataError, match="qid: found nobody; expected one of 60 queries"):
        tr.Ranker(n_estimators=1).fit(DATA).explain(DATA, qid="nobody")
    linear = tr.Ranker(n_estimators=3, linear_tree=True).fit(DATA)
    with pytest.raises(OptionError, match="explain: lightgbm has no contributions"):
        linear.explain(DATA)


def test_monotone_constraints_by_name():
    x = np.array(DATA.X[:, :2])
    frame = tr.RankingData.from_arrays(x, DATA.labels, group=DATA.sizes, feature_names=["a", "b"])
    ranker = tr.Ranker(n_estimators=20, monotone_constraints={"b": -1}).fit(frame)
    grid = np.column_stack([np.zeros(50), np.linspace(x[:, 1].min(), x[:, 1].max(), 50)])
    assert (np.diff(ranker.predict(grid)) <= 0).all()
    same = tr.Ranker(n_estimators=20, monotone_constraints=[0, -1]).fit(frame)
    np.testing.assert_array_equal(same.predict(frame), ranker.predict(frame))
    with pytest.raises(OptionError, match="unknown column of monotone_constraints 'c'"):
        tr.Ranker(monotone_constraints={"c": 1}).fit(frame)


def test_documents_are_called_by_id_or_by_number():
    data = tr.RankingData.from_arrays(
        DATA.X, DATA.labels, group=DATA.sizes, doc_ids=[f"d{i}" for i in range(DATA.n_documents)]
    )
    explained = tr.Ranker(n_estimators=5).fit(data).explain(data, qid=data.qids[0])
    best, *_, last = (-explained.scores).argsort()
    for named in ((best, last), (str(best), str(last)), (f"d{best}", f"d{last}")):
        difference = explained.why(*named)
        assert (difference.above, difference.below) == (f"d{best}", f"d{last}")
