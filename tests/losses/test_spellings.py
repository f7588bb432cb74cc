"""A loss is bound to arrays, ranking data or lists: the same bits."""

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import Lists
from tautrank.errors import DataError, OptionError, TautrankWarning

LABELS = np.array([2, 0, 1, 1, 0], np.float32)
OFFSETS = [0, 3, 5]
SCORES = [0.5, 0.5, 2.0, -1.0, 3.0]

SPELLINGS = {
    "arrays": (LABELS, OFFSETS),
    "RankingData": (tr.RankingData.from_arrays(np.ones((5, 1)), LABELS, group=[3, 2]),),
    "Lists": (Lists.of(LABELS, OFFSETS),),
}


@pytest.mark.parametrize("name", ["ndcg-loss2++", "listnet", "xendcg", "softrank", "mse"])
@pytest.mark.parametrize("lists", SPELLINGS.values(), ids=SPELLINGS)
def test_arrays_ranking_data_and_lists_give_the_same_bits(lists, name):
    loss = tr.loss(name)
    expected = loss.bind(LABELS, OFFSETS, [2.0, 0.5], 7)

    objective = loss.bind(*lists, weights=[2.0, 0.5], seed=7)

    assert objective.values(SCORES).tolist() == expected.values(SCORES).tolist()
    for ours, theirs in zip(objective.gradients(SCORES), expected.gradients(SCORES), strict=True):
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("lists", SPELLINGS.values(), ids=SPELLINGS)
def test_propensities_go_with_every_spelling(lists):
    propensities = [1.0, 0.5, 0.5, 1.0, 0.25]
    loss = tr.loss("listnet")
    expected = loss.bind(LABELS, OFFSETS, propensities=propensities).values(SCORES)
    assert loss.bind(*lists, propensities=propensities).values(SCORES).tolist() == expected.tolist()


def test_without_offsets_all_documents_are_one_list():
    loss = tr.loss("listnet")
    alone = loss.bind(LABELS).values(SCORES)
    assert alone.tolist() == loss.bind(LABELS, [0, 5]).values(SCORES).tolist()


def test_lists_of_scattered_rows_are_refused():
    with pytest.warns(TautrankWarning):
        scattered = Lists.of([1, 0, 0], qid=["b", "a", "b"])
    expected = "labels: found lists of scattered rows; expected the documents of a query adjacent"
    with pytest.raises(DataError, match=expected):
        tr.loss("mse").bind(scattered)


def test_ranking_data_take_no_offsets():
    with pytest.raises(DataError, match="offsets: found both RankingData and offsets"):
        tr.loss("mse").bind(*SPELLINGS["RankingData"], OFFSETS)


def test_a_loss_without_use_for_propensities_refuses_them_with_data_too():
    with pytest.raises(OptionError, match="propensities: the loss mse has no use for them"):
        tr.loss("mse").bind(*SPELLINGS["Lists"], propensities=np.ones(5))
