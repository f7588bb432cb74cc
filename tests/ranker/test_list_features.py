"""List features against a slow reference, and rankers that have them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
import zipfile

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import rankdata
from sklearn.base import clone

import tautrank as tr
from tautrank.errors import DataError, OptionError
from tautrank.kernels.ranking import COUNT_UP_TO
from tautrank.kernels.threads import small_shares
from tests.ranker_examples import TRAIN, VALID, ranker

EVERYTHING = tr.ListFeatures([0, 1, 2], difference=True)


def reference(values):
    """Z-scores, relative ranks and differences of one column in one list, as their definition
    says.
    """
    z, rank, difference = np.full((3, values.size), np.nan)
    there = ~np.isnan(values)
    x, n = values[there].astype(np.float64), there.sum()
    if n:
        constant = x.max() == x.min()
        z[there] = 0 if constant else (x - x.mean()) / x.std()
        rank[there] = 0 if n == 1 else 2 * (rankdata(x) - 1) / (n - 1) - 1
        difference[there] = x - x.max()
    return z, rank, difference


def lists(sizes=(1, 2, 5, 17, 40, 1, COUNT_UP_TO, COUNT_UP_TO + 30), distinct=1000, seed=0):
    """Documents of lists of these sizes: numbers, some of them tied, some missing, and a
    constant.
    """
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *sizes])
    X = np.round(rng.normal(size=(offsets[-1], 3)) * distinct).astype(np.float32)
    X[rng.random(X.shape[0]) < 0.2, 0] = np.nan
    X[:, 1] = np.minimum(X[:, 1], 0)
    X[:: 2 * X.shape[0] // 3, 1] *= -0.0
    X[offsets[3] : offsets[4]] = 0.1
    X[offsets[2] : offsets[3], 0] = np.nan
    return X, offsets


@pytest.mark.uncompiled
@pytest.mark.parametrize("distinct", [1, 1000])
def test_values_are_those_of_the_definition(distinct):
    X, offsets = lists(distinct=distinct)
    found = EVERYTHING.transform(X, offsets)
    assert found.dtype == np.float32
    assert np.array_equal(found[:, :3], X, equal_nan=True)
    for (start, end), column in itertools.product(itertools.pairwise(offsets), range(3)):
        for block, expected in enumerate(reference(X[start:end, column]), 1):
            np.testing.assert_allclose(
                found[start:end, 3 * block + column], expected, rtol=1e-6, atol=1e-7
            )


def test_lists_without_differences_are_exactly_zero():
    X = np.array([[0.1]] * 7 + [[-3e38]] + [[np.nan], [5]], np.float32)
    found = tr.ListFeatures([0], difference=True).transform(X, np.array([0, 7, 8, 10]))
    assert np.array_equal(found[:8, 1:], np.zeros((8, 3)))
    assert np.array_equal(found[8:, 1:], [[np.nan] * 3, [0] * 3], equal_nan=True)


def test_the_largest_and_the_smallest_numbers():
    largest, tiny = np.finfo(np.float32).max, np.float32(1e-45)
    X = np.array([[-largest], [largest], [1], [0], [tiny]], np.float32)
    found = tr.ListFeatures([0], difference=True).transform(X, np.array([0, 2, 3, 5]))
    assert np.array_equal(found[:, 1], [-1, 1, 0, -1, 1])
    assert np.array_equal(found[:, 2], [-1, 1, 0, -1, 1])
    assert np.array_equal(found[:, 3], np.array([-largest, 0, 0, -tiny, 0], np.float32))


def test_the_same_bits_for_any_order_and_any_number_of_threads():
    X, offsets = lists(sizes=(30, 300, 7, 60, 1), distinct=3)
    X += np.random.default_rng(3).normal(size=X.shape).astype(np.float32)
    once = EVERYTHING.transform(X, offsets)
    with small_shares():
        assert np.array_equal(EVERYTHING.transform(X, offsets, threads=2), once, equal_nan=True)
    rng = np.random.default_rng(1)
    queries = rng.permutation(offsets.size - 1)
    rows = np.concatenate(
        [offsets[q] + rng.permutation(offsets[q + 1] - offsets[q]) for q in queries]
    )
    moved = EVERYTHING.transform(X[rows], np.cumsum([0, *np.diff(offsets)[queries]]))
    assert np.array_equal(moved, once[rows], equal_nan=True)


def test_sparse_rows_are_described_as_dense_ones():
    X, offsets = lists(distinct=1)
    dense = tr.ListFeatures([2, 0]).transform(X, offsets)
    sparse = tr.ListFeatures([2, 0]).transform(csr_matrix(X), offsets)
    assert sparse.format == "csr"
    assert sparse.dtype == np.float32
    assert np.array_equal(sparse.toarray(), dense, equal_nan=True)
    assert np.array_equal(
        tr.ListFeatures([2, 0]).transform(np.asfortranarray(X), offsets), dense, equal_nan=True
    )


def test_doubles_are_told_apart_and_give_the_bits_of_singles():
    X, offsets = lists()
    singles = EVERYTHING.transform(X, offsets)
    doubles = EVERYTHING.transform(X.astype(np.float64), offsets)
    assert doubles.dtype == np.float64
    assert np.array_equal(doubles, singles, equal_nan=True)
    stamps = np.array([[2.0**31 + 1], [2.0**31], [2.0**31 + 2]])
    assert np.array_equal(
        tr.ListFeatures([0], difference=True).transform(stamps, np.array([0, 3]))[:, 2:],
        [[0, -1], [-1, -2], [1, 0]],
    )


def relative(queries=80, documents=12, seed=0):
    """Data whose labels depend on the rank of a feature within its list; its level differs between
    lists.
    """
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.normal(size=queries) * 30, documents)
    signal, noise = rng.normal(size=(2, queries * documents))
    order = signal.reshape(queries, documents).argsort(axis=1).argsort(axis=1).ravel()
    labels = (order >= documents - 2) * 1.0
    X = np.stack([signal + level, noise, noise * level], axis=1)
    return tr.RankingData.from_arrays(
        X, labels, group=[documents] * queries, feature_names=["bm25", "noise", "more"]
    )


DATA, HELD_OUT = relative(), relative(seed=1)


@pytest.fixture(scope="module")
def fitted():
    return ranker(list_features=True).fit(DATA, HELD_OUT)


def test_they_find_what_only_the_list_shows(fitted):
    assert fitted.score(HELD_OUT) > ranker().fit(DATA).score(HELD_OUT) + 0.1
    assert fitted.list_features_ == tr.ListFeatures([0, 1, 2])
    assert fitted.n_features_in_ == 3
    assert fitted.feature_names_in_.tolist() == ["bm25", "noise", "more"]
    assert fitted.list_features_.names(fitted.feature_names_in_)[:4] == (
        "bm25 (z in list)",
        "noise (z in list)",
        "more (z in list)",
        "bm25 (rank in list)",
    )
    shares = fitted.model_.importances()
    assert shares.size == 9
    np.testing.assert_allclose(fitted.feature_importances_, shares.reshape(3, 3).sum(axis=0))
    assert fitted.feature_importances_[0] > 0.9


def test_a_model_is_that_of_the_columns_added_by_hand(fitted):
    def added(data):
        return dataclasses.replace(
            data, X=fitted.list_features_.transform(data.X, data.offsets), feature_names=None
        )

    by_hand = ranker().fit(added(DATA), added(HELD_OUT))
    assert np.array_equal(by_hand.predict(added(HELD_OUT)), fitted.predict(HELD_OUT))
    assert by_hand.evals_result_ == fitted.evals_result_


def test_predict_needs_to_know_the_lists(fitted):
    X, qid = HELD_OUT.X, HELD_OUT.qid_of_document
    expected = fitted.predict(HELD_OUT)
    assert np.array_equal(fitted.predict(X, qid=qid), expected)
    assert np.array_equal(fitted.predict(X, group=HELD_OUT.sizes), expected)
    rows = np.random.default_rng(0).permutation(len(qid))
    assert np.array_equal(fitted.predict(X[rows], qid=qid[rows]), expected[rows])
    assert np.array_equal(fitted.predict(X[:12]), expected[:12])  # one list
    assert not np.array_equal(fitted.predict(X), expected)
    assert fitted.predict(X[:0]).size == 0
    long = fitted.predict(np.tile(X, (3, 1)))
    assert np.isfinite(long).all()
    ranking = fitted.rank(X[rows], qid=qid[rows])
    assert np.array_equal(ranking.score, expected[rows][ranking.document])
    assert fitted.score(HELD_OUT) == fitted.score(X, HELD_OUT.labels, qid=qid) == fitted.best_score_


def test_predict_takes_queries_without_list_features_too():
    plain = ranker().fit(TRAIN)
    rows = np.random.default_rng(0).permutation(TRAIN.n_documents)
    assert np.array_equal(
        plain.predict(TRAIN.X[rows], qid=TRAIN.qid_of_document[rows]), plain.predict(TRAIN.X)[rows]
    )


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        (True, (0, 1, 2)),
        ("bm25", (0,)),
        (["more", 0], (2, 0)),
        (1, (1,)),
        (np.array([2, 2]), (2,)),
        (False, None),
    ],
    ids=str,
)
def test_columns_may_be_names_or_numbers(given, columns):
    found = ranker(list_features=given, n_estimators=1).fit(DATA).list_features_
    assert (None if found is None else found.columns) == columns


def test_categories_are_left_out():
    model = ranker(list_features=True, categorical_feature=["noise"], n_estimators=1)
    data = dataclasses.replace(DATA, X=np.abs(np.round(DATA.X)))
    assert model.fit(data).list_features_.columns == (0, 2)
    model.set_params(list_features="noise")
    with pytest.raises(
        OptionError,
        match=r"^list_features: column 1 holds category codes; expected columns of numbers$",
    ):
        model.fit(data)


def test_auto_keeps_what_validates_best():
    found = ranker(list_features="auto").fit(DATA, HELD_OUT).list_features_
    assert 0 in found.columns
    # Labels that the list says nothing about: no worse than without list features.
    assert (
        ranker(list_features="auto").fit(TRAIN, VALID).best_score_
        >= ranker().fit(TRAIN, VALID).best_score_
    )


def test_files_and_copies_hold_them(fitted, tmp_path):
    fitted.save(tmp_path / "model.taut")
    loaded = tr.Ranker.load(tmp_path / "model.taut")
    for copy in (loaded, pickle.loads(pickle.dumps(fitted))):
        assert copy.list_features is True
        assert copy.list_features_ == fitted.list_features_
        assert copy.n_features_in_ == 3
        assert np.array_equal(copy.predict(HELD_OUT), fitted.predict(HELD_OUT))
    loaded.save(tmp_path / "again.taut")
    assert (tmp_path / "again.taut").read_bytes() == (tmp_path / "model.taut").read_bytes()
    with zipfile.ZipFile(tmp_path / "model.taut") as archive:
        meta = json.loads(archive.read("meta.json"))
    assert meta["format_version"] == 3
    assert meta["n_features"] == 3
    assert meta["list_features"]["names"] == list(fitted.list_features_.names(DATA.feature_names))


@pytest.mark.parametrize(
    "given", [["bm25", 2], tr.ListFeatures("bm25", rank=False, difference=True)], ids=str
)
def test_parameters_of_every_kind_come_back(given, tmp_path):
    model = ranker(list_features=given, n_estimators=2)
    assert clone(model).get_params()["list_features"] == given
    model.fit(DATA).save(tmp_path / "model.taut")
    loaded = tr.Ranker.load(tmp_path / "model.taut")
    assert loaded.list_features == given
    assert np.array_equal(loaded.predict(HELD_OUT), model.predict(HELD_OUT))


def test_training_continues_with_the_same_list_features(fitted):
    more = ranker(list_features="auto", n_estimators=5).fit(DATA, init_model=fitted)
    assert more.list_features_ == fitted.list_features_
    whole = ranker(list_features=True, n_estimators=17).fit(DATA)
    assert np.array_equal(more.predict(HELD_OUT), whole.predict(HELD_OUT))
    with pytest.raises(
        OptionError,
        match=r"^list_features: found False; expected those of init_model: ListFeatures",
    ):
        ranker().fit(DATA, init_model=fitted)
    with pytest.raises(
        OptionError, match=r"^list_features: found True; expected those of init_model: none$"
    ):
        ranker(list_features=True).fit(DATA, init_model=ranker(n_estimators=1).fit(DATA))


def test_other_engines_take_them():
    for loss in ("lightgbm:lambdarank", "xgboost:rank:ndcg", "catboost:YetiRank"):
        model = ranker(loss, list_features=["bm25"], n_estimators=3).fit(DATA)
        assert model.model_.n_features == 5
        assert np.array_equal(model.predict(HELD_OUT.X[:12]), model.predict(HELD_OUT)[:12])


def test_committees_take_them(tmp_path):
    model = ranker(["mse", "lambdarank"], list_features=["bm25"], n_estimators=4).fit(DATA)
    assert model.model_.n_features == 5
    assert model.score(HELD_OUT) > 0.9
    model.save(tmp_path / "model.taut")
    assert np.array_equal(
        tr.Ranker.load(tmp_path / "model.taut").predict(HELD_OUT), model.predict(HELD_OUT)
    )


WRONG = {
    "unknown": (
        "bm52",
        "unknown column of list_features 'bm52'; did you mean 'bm25'? (known: bm25, more, noise)",
    ),
    "number": ([3], "list_features: found 3; expected a whole number of at least 0 and at most 2"),
    "empty": (
        [],
        "list_features: found no column; expected True, 'auto', or names or numbers of columns",
    ),
    "kind": (
        1.5,
        "list_features: found 1.5; expected True, 'auto', or names or numbers of columns",
    ),
    "auto": (
        "auto",
        "list_features: found 'auto' without validation data; expected an eval_set to choose by",
    ),
}


@pytest.mark.parametrize(("given", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_columns_are_one_sentence(given, sentence):
    with pytest.raises(OptionError) as caught:
        ranker(list_features=given).fit(DATA)
    assert str(caught.value) == sentence


def test_other_wrong_arguments_are_one_sentence(fitted):
    with pytest.raises(
        OptionError, match=r"^list_features: found the name 'bm25', but the data has no names"
    ):
        ranker(list_features="bm25").fit(TRAIN)
    with pytest.raises(
        OptionError,
        match=r"^list_features: found nothing to add; expected z_score, rank, difference",
    ):
        tr.ListFeatures(z_score=False, rank=False)
    with pytest.raises(
        OptionError, match=r"^list_features: rank: found 2; expected True or False$"
    ):
        tr.ListFeatures(rank=2)
    with pytest.raises(
        DataError, match=r"^qid: found 1 ids, but X has 2 rows; expected one id per row$"
    ):
        fitted.predict(DATA.X[:2], qid=[1])
    with pytest.raises(DataError, match=r"^qid, group: found both"):
        fitted.predict(DATA.X[:2], qid=[1, 1], group=[2])
    with pytest.raises(
        OptionError,
        match=r"^X: is RankingData, which has queries; expected no qid or group with it$",
    ):
        fitted.predict(DATA, qid=[1])
