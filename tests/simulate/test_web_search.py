"""Simulated web search: the shapes it promises, a truth that explains the labels, the same bits
however it is made.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.special import ndtr

import tautrank as tr
from tautrank.errors import OptionError
from tautrank.simulate import simulate_web_search
from tautrank.simulate.shapes import MSLR, SHAPES, YAHOO, label_cuts

LIKES = ["mslr", "yahoo"]
QUERIES = {"mslr": 1000, "yahoo": 2000}


@pytest.fixture(scope="module", params=LIKES)
def simulated(request):
    return request.param, *simulate_web_search(
        QUERIES[request.param], like=request.param, seed=7, return_truth=True
    )


@pytest.fixture(scope="module")
def mslr():
    data, truth = simulate_web_search(300, like="mslr", seed=3, return_truth=True)
    return (
        data,
        truth,
        {
            name: data.X[:, column].astype(np.float64)
            for column, name in enumerate(data.feature_names)
        },
    )


def test_published_statistics(simulated):
    like, data, _ = simulated
    shape = SHAPES[like]
    sizes = data.sizes
    # The variances of the two laws of length, relative to the squared mean.
    variance = {"mslr": np.expm1(0.36), "yahoo": 1 / 3}[like]
    assert (
        abs(sizes.mean() - shape.mean_length)
        < 5 * shape.mean_length * np.sqrt(variance / sizes.size) + 0.5
    )
    assert data.n_features == {"mslr": 136, "yahoo": 519}[like]
    shares = np.bincount(data.labels.astype(int), minlength=5) / data.n_documents
    # Labels of a query lean together, so the standard error is that of the queries' shares.
    of_query = np.stack(
        [np.add.reduceat(data.labels == label, data.offsets[:-1]) for label in range(5)]
    )
    errors = (of_query - shares[:, None] * sizes).std(axis=1) / sizes.mean() / np.sqrt(sizes.size)
    assert (np.abs(shares - shape.label_shares) < 5 * errors + 0.003).all()
    # Bruch 2020, sec. 5.1: 982 of 31,531 and 1,135 of 29,921 queries have no relevant document.
    published = {"mslr": 982 / 31531, "yahoo": 1135 / 29921}[like]
    empty = data.describe().empty_queries / sizes.size
    assert abs(empty - published) < 5 * np.sqrt(published / sizes.size)


def test_labels_have_the_probabilities_the_truth_gives_them(simulated):
    like, data, truth = simulated
    cuts = label_cuts(SHAPES[like], 0.8)
    part = np.searchsorted(np.quantile(truth, np.arange(0.1, 1, 0.1)), truth)
    for label, cut in enumerate(cuts, 1):
        chance = ndtr((truth - cut) / 0.8)
        expected = np.bincount(part, chance)
        deviation = np.sqrt(np.bincount(part, chance * (1 - chance)))
        counts = np.bincount(part, data.labels >= label)
        assert (np.abs(counts - expected) <= 5 * deviation + 1).all()


def test_nothing_ranks_better_than_the_truth(simulated):
    _, data, truth = simulated
    rng = np.random.default_rng(0)
    for name in ("dcg@3", "ndcg@10", "err", "map"):
        metric = tr.metric(name)
        best = metric.per_query(truth, data.labels, data.offsets)
        blurred = metric.per_query(
            truth + 0.5 * rng.standard_normal(truth.size), data.labels, data.offsets
        )
        gain = (best - blurred)[~np.isnan(best)]
        assert gain.mean() > 5 * gain.std() / np.sqrt(gain.size)


@pytest.mark.parametrize("like", [None, *LIKES])
def test_without_noise_labels_are_the_truth_cut(like):
    data, truth = simulate_web_search(60, like=like, n_features=16, noise=0, return_truth=True)
    assert (np.diff(data.labels[np.argsort(truth)]) >= 0).all()


@pytest.mark.parametrize("like", LIKES)
def test_queries_do_not_depend_on_their_number_nor_on_threads(like):
    # Several blocks each: a block holds 2^20 features.
    length = {"mslr": 150.0, "yahoo": 60.0}[like]
    many, truth = simulate_web_search(
        120, like=like, mean_length=length, seed=5, return_truth=True, n_jobs=1
    )
    few, truth_of_few = simulate_web_search(
        75, like=like, mean_length=length, seed=5, return_truth=True, n_jobs=3
    )
    first = many.subset(np.arange(75))
    np.testing.assert_array_equal(first.X, few.X)
    np.testing.assert_array_equal(first.labels, few.labels)
    np.testing.assert_array_equal(first.offsets, few.offsets)
    np.testing.assert_array_equal(truth[: truth_of_few.size], truth_of_few)


def test_blocks_and_seeds_and_shapes_differ():
    one = simulate_web_search(130, like="mslr", n_features=16, mean_length=120, seed=0)
    with_other_seed = simulate_web_search(130, like="mslr", n_features=16, mean_length=120, seed=1)
    assert not np.array_equal(one.sizes, with_other_seed.sizes)
    block = 2**20 // (136 * 120)
    assert not np.array_equal(one.sizes[:block], one.sizes[block : 2 * block])
    assert not np.array_equal(one.subset([0]).X, one.subset([block]).X)
    assert simulate_web_search(5, like="yahoo", mean_length=120, n_features=16).n_documents != (
        simulate_web_search(5, like="mslr", mean_length=120, n_features=16).n_documents
    )


@pytest.mark.parametrize("like", LIKES)
def test_columns_mean_the_same_for_every_seed(like):
    def correlations(seed: int) -> np.ndarray:
        data, truth = simulate_web_search(150, like=like, seed=seed, return_truth=True)
        query = np.repeat(np.arange(data.n_queries), data.sizes)
        centred = truth - (np.bincount(query, truth) / data.sizes)[query]
        X = np.log1p(data.X - data.X.min(axis=0))
        return (X * centred[:, None]).mean(axis=0) / (X.std(axis=0) * centred.std())

    assert np.corrcoef(correlations(0), correlations(1))[0, 1] > 0.9


def test_fewer_columns_are_a_choice_and_more_are_zeros():
    full = simulate_web_search(4, like="mslr", mean_length=10)
    few = simulate_web_search(4, like="mslr", mean_length=10, n_features=20)
    fewer = simulate_web_search(4, like="mslr", mean_length=10, n_features=16)
    assert set(fewer.feature_names) < set(few.feature_names) < set(full.feature_names)
    columns = [full.feature_names.index(name) for name in few.feature_names]
    np.testing.assert_array_equal(few.X, full.X[:, columns])
    np.testing.assert_array_equal(few.labels, full.labels)
    wide = simulate_web_search(4, like="mslr", mean_length=10, n_features=138)
    np.testing.assert_array_equal(wide.X, np.hstack([full.X, np.zeros((full.n_documents, 2))]))
    assert wide.feature_names == (*full.feature_names, "unused_136", "unused_137")
    yahoo = simulate_web_search(3, like="yahoo", n_features=700)
    assert yahoo.X[:, :519].any()
    assert not yahoo.X[:, 519:].any()


PARTS = ("body", "anchor", "title", "url")
each_stream = pytest.mark.parametrize("stream", [*PARTS, "whole"])


@pytest.mark.parametrize("name", ["length", "tf_sum"])
def test_the_whole_text_of_mslr_is_the_sum_of_its_parts(mslr, name):
    _, _, f = mslr
    of_parts = sum(f[f"{name}.{part}"] for part in PARTS)
    np.testing.assert_allclose(f[f"{name}.whole"], of_parts, rtol=1e-6)


@each_stream
@pytest.mark.parametrize("kind", ["tf", "normalised_tf", "tfidf"])
def test_mslr_statistics_of_terms_bound_each_other(mslr, stream, kind):
    _, _, f = mslr
    low, mean, high, variance = (
        f[f"{kind}_{statistic}.{stream}"] for statistic in ("min", "mean", "max", "variance")
    )
    assert (low <= mean * (1 + 1e-5)).all()
    assert (mean <= high * (1 + 1e-5)).all()
    # The variance of values between two bounds is at most the product of their distances from the
    # mean.
    largest_variance = (high - mean) * (mean - low)
    assert (variance <= largest_variance * (1 + 1e-4) + 1e-6 * high**2).all()


@each_stream
def test_mslr_columns_of_a_stream_follow_from_each_other(mslr, stream):
    data, _, f = mslr
    np.testing.assert_array_equal(f[f"boolean.{stream}"] == 1, f[f"covered_ratio.{stream}"] == 1)
    assert (f[f"tf_sum.{stream}"] <= f[f"length.{stream}"]).all()
    assert (f[f"tf_sum.{stream}"] >= f[f"covered_terms.{stream}"]).all()
    for model in ("lm_absolute", "lm_dirichlet", "lm_jelinek_mercer"):
        assert (f[f"{model}.{stream}"] <= 0).all(), model
    idf = f[f"idf.{stream}"]
    of_first_document = np.repeat(idf[data.offsets[:-1]], data.sizes)
    np.testing.assert_array_equal(idf, of_first_document)


def test_mslr_columns_of_an_absent_stream_are_zero_together(mslr):
    _, _, f = mslr
    np.testing.assert_array_equal(f["idf.body"], f["idf.whole"])
    is_absent = f["length.anchor"] == 0
    assert 0.2 < is_absent.mean() < 0.8
    for name in ("covered_terms", "tf_max", "bm25", "lm_dirichlet"):
        assert not f[f"{name}.anchor"][is_absent].any(), name


def test_mslr_scores_of_one_term_queries_are_the_formulas(mslr):
    _, _, f = mslr
    covered = f["covered_ratio.whole"] == 1
    one = covered & (f["covered_terms.whole"] == 1)
    assert one.sum() > 1000
    tf, length, idf = f["tf_sum.body"][one], f["length.body"][one], f["idf.body"][one]
    np.testing.assert_array_equal(tf, f["tf_max.body"][one])
    np.testing.assert_allclose(f["tfidf_sum.body"][one], tf * idf, rtol=1e-5)
    mean_length = np.exp(6.2 + 0.9**2 / 2)  # of the log-normal law of body lengths
    bm25 = idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / mean_length))
    np.testing.assert_allclose(f["bm25.body"][one], bm25, rtol=1e-5)
    background = np.exp(-idf) / 100
    dirichlet = np.log((tf + 2000 * background) / (length + 2000))
    np.testing.assert_allclose(f["lm_dirichlet.body"][one], dirichlet, rtol=1e-4, atol=1e-5)
    mixed = np.log(0.9 * tf / length + 0.1 * background)
    np.testing.assert_allclose(f["lm_jelinek_mercer.body"][one], mixed, rtol=1e-4, atol=1e-5)


def test_mslr_has_heavy_tails_counts_and_zeros(mslr):
    data, _, _ = mslr
    assert np.isfinite(data.X).all()
    assert (data.X.std(axis=0) > 0).all()
    outlying = (data.X.max(axis=0) - data.X.mean(axis=0)) / data.X.std(axis=0)
    assert (outlying > 10).sum() > 40
    # Covered terms, lengths, sums, smallest and largest counts, boolean: 6 families of 5; all of
    # the page but one.
    is_whole = (data.X % 1 == 0).all(axis=0)
    assert is_whole.sum() == 6 * 5 + 10
    assert 0.3 < (data.X == 0).mean() < 0.6


def test_yahoo_has_levels_copies_and_columns_of_the_query():
    data = simulate_web_search(200, like="yahoo", seed=2)
    assert data.X.min() == 0
    assert data.X.max() <= 1
    distinct = np.unique(data.X, axis=1).shape[1]
    assert distinct == 501
    first = np.repeat(data.X[data.offsets[:-1]], data.sizes, axis=0)
    assert (first == data.X).all(axis=0).sum() == 30
    values = np.array([np.unique(column).size for column in data.X.T])
    assert (values == 2).sum() > 20
    assert (values > data.n_documents / 20).sum() > 200
    assert data.feature_names is None


def test_memory_stays_near_the_result():
    simulate_web_search(1, like="mslr")  # the label cuts are computed once
    tracemalloc.start()
    data, truth = simulate_web_search(700, like="mslr", return_truth=True, n_jobs=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    result = data.X.nbytes + data.labels.nbytes + truth.nbytes
    block = 2**20 * 4  # bytes of the features of a block
    assert peak < result + 8 * block


@pytest.mark.parametrize("like", [None, *LIKES])
def test_the_truth_comes_beside_the_same_data(like):
    data, truth = simulate_web_search(20, like=like, n_features=16, return_truth=True)
    plain = simulate_web_search(20, like=like, n_features=16)
    np.testing.assert_array_equal(plain.X, data.X)
    np.testing.assert_array_equal(plain.labels, data.labels)
    assert truth.dtype == np.float64
    assert truth.shape == data.labels.shape


def test_label_cuts_widen_with_noise():
    for shape in (MSLR, YAHOO):
        assert (label_cuts(shape, 2.0)[-1] > label_cuts(shape, 0.0)[-1]).all()


WRONG = {
    "like": ({"like": "bing"}, "like: found 'bing'; expected 'mslr', 'yahoo' or None"),
    "a list": ({"like": ["mslr"]}, "like: found ['mslr']; expected 'mslr', 'yahoo' or None"),
    "seed": ({"seed": -1}, "seed: found -1; expected a whole number of at least 0"),
    "jobs": (
        {"n_jobs": 0},
        "n_jobs: found 0; expected a whole number of at least 1, or -1 for all cores",
    ),
    "queries": (
        {"n_queries": 1.5, "like": "yahoo"},
        "n_queries: found 1.5; expected a whole number of at least 1",
    ),
    "features": (
        {"n_features": 3, "like": "mslr"},
        "n_features: found 3; expected a whole number of at least 16",
    ),
    "length": ({"mean_length": 1}, "mean_length: found 1; expected a number of at least 2"),
    "noise": ({"noise": float("nan")}, "noise: found nan; expected a number of at least 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case):
    arguments, sentence = WRONG[case]
    with pytest.raises(OptionError) as caught:
        simulate_web_search(**arguments)
    assert str(caught.value) == sentence
