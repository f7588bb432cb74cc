"""Columns of categories: as LightGBM takes them, with their levels in the model file."""

import io
import itertools

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tautrank as tr
from tautrank.errors import DataError

QUERIES, LENGTH = 30, 20
N = QUERIES * LENGTH


def shop(seed=0):
    """Products whose relevance depends on brand and price; the levels of brand have an order of
    their own.
    """
    rng = np.random.default_rng(seed)
    brand = rng.choice(["zeta", "alpha", "mid", "none"], N)
    price = rng.normal(size=N)
    label = (brand == "alpha").astype(int) * 2 + (price > 0.5) + (rng.random(N) < 0.1)
    frame = pd.DataFrame(
        {"qid": np.repeat(np.arange(QUERIES), LENGTH), "label": label, "price": price}
    )
    frame["brand"] = pd.Categorical(
        np.where(brand == "none", None, brand), categories=["mid", "zeta", "alpha", "rare"]
    )
    return frame


def scored(frame, **parameters):
    ranker = tr.Ranker(
        "lightgbm:lambdarank", n_estimators=5, min_data_per_group=5, cat_smooth=1, **parameters
    )
    data = tr.RankingData.from_frame(frame)
    return ranker.fit(data), ranker.predict(data)


def test_the_same_model_as_lightgbm_makes_of_the_frame():
    frame = shop()
    X = frame[["price", "brand"]]
    ranker, scores = scored(frame, learning_rate=0.1)
    theirs = lightgbm.LGBMRanker(
        n_estimators=5, min_data_per_group=5, cat_smooth=1, verbose=-1, deterministic=True
    )
    theirs.fit(X, frame.label, group=[LENGTH] * QUERIES)
    assert np.array_equal(scores, theirs.predict(X))
    assert ranker.categories_ == {"brand": ("mid", "zeta", "alpha", "rare")}
    # Their model is read with the levels that its text holds.
    loaded = tr.Ranker.load(theirs)
    assert loaded.categories_ == ranker.categories_
    shuffled = X.assign(brand=X.brand.cat.reorder_categories(["alpha", "rare", "zeta", "mid"]))
    assert np.array_equal(loaded.predict(shuffled), scores)


def test_levels_count_not_codes_in_any_kind_of_frame():
    frame = shop()
    ranker, scores = scored(frame)
    X = frame[["price", "brand"]]
    brands = [None if brand != brand else brand for brand in X.brand]
    polars = pl.DataFrame({"price": X.price, "brand": pl.Series(brands, dtype=pl.Categorical)})
    arrow = pa.table({"price": X.price.to_numpy(), "brand": pa.array(brands).dictionary_encode()})
    chunks = pa.concat_tables([arrow[300:], arrow[:300]])  # two dictionaries in two orders
    for same in (polars, arrow, X[::-1].assign(brand=X.brand.cat.remove_unused_categories())[::-1]):
        assert np.array_equal(ranker.predict(same), scores)
    assert np.array_equal(ranker.predict(chunks), np.roll(scores, -300))
    # Learnt from Polars, where levels are sorted: codes differ, splits by category do not.
    other = tr.Ranker("lightgbm:lambdarank", n_estimators=5, min_data_per_group=5, cat_smooth=1)
    other.fit(polars, frame.label, qid=frame.qid)
    assert other.categories_ == {"brand": ("alpha", "mid", "zeta")}
    assert np.allclose(other.predict(X), scores)


def test_an_unseen_level_is_a_missing_value_and_files_keep_the_levels():
    frame = shop()
    ranker, scores = scored(frame)
    buffer = io.BytesIO()
    ranker.save(buffer)
    loaded = tr.Ranker.load(buffer.getvalue())
    assert loaded.categories_ == ranker.categories_
    X = frame[["price", "brand"]]
    assert np.array_equal(loaded.predict(X), scores)
    new = X.assign(brand=pd.Categorical(["never seen"] * N))
    gone = X.assign(brand=pd.Categorical([None] * N, categories=["zeta"]))
    assert np.array_equal(loaded.predict(new), loaded.predict(gone))
    assert not np.array_equal(loaded.predict(new), scores)
    # Validation data and continued trainings are brought to the codes of the training.
    data, valid = tr.RankingData.from_frame(frame), tr.RankingData.from_frame(frame[::-1].assign(
        brand=frame.brand[::-1].astype(str).astype("category")))  # fmt: skip
    again = tr.Ranker("lightgbm:lambdarank", n_estimators=5).fit(data, valid, init_model=loaded)
    assert again.score(valid) == pytest.approx(again.score(data), abs=1e-12)
    assert again.categories_ == ranker.categories_


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_losses_of_this_library_split_by_category(engine):
    frame = shop()
    data = tr.RankingData.from_frame(frame)
    ranker = tr.Ranker(engine=engine, n_estimators=5, list_features=True).fit(data)
    assert ranker.list_features_.columns == (0,)  # codes have no order
    other = tr.RankingData.from_frame(
        frame.assign(brand=frame.brand.cat.reorder_categories(sorted(frame.brand.cat.categories)))
    )
    assert np.array_equal(ranker.predict(other), ranker.predict(data))


def test_parts_are_joined_by_level():
    one = tr.RankingData.from_arrays(
        pd.DataFrame({"b": pd.Categorical(["x", "y"])}), [0, 1], qid=[1, 1]
    )
    two = tr.RankingData.from_arrays(
        pd.DataFrame({"b": pd.Categorical(["w", "y"])}), [0, 1], qid=[2, 2]
    )
    joined = tr.RankingData.concat([one, two])
    assert [joined.categories["b"][int(code)] for code in joined.X[:, 0]] == ["x", "y", "w", "y"]
    assert joined.subset([1]).categories == joined.categories


def test_columns_of_any_type_by_name():
    frame = pd.DataFrame(
        {
            "label": [1, 0, 0],
            "qid": [1, 1, 1],
            "shop": [3.0, np.nan, 7.0],
            "color": ["red", None, "blue"],
        }
    )
    frames = frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)
    for each, named in itertools.product(frames, (["shop", "color"], ["color", "shop"])):
        data = tr.RankingData.from_frame(each, categorical=named)
        assert data.categories == {"shop": ("3", "7"), "color": ("blue", "red")}
        assert np.array_equal(data.X, [[0, 1], [np.nan, np.nan], [1, 0]], equal_nan=True)
    with pytest.raises(
        DataError, match="frame: categorical: unknown column 'colour'; did you mean 'color'"
    ):
        tr.RankingData.from_frame(frame, categorical=["colour"])


def test_numbers_where_categories_were_are_a_sentence():
    ranker, _ = scored(shop())
    with pytest.raises(
        DataError,
        match="column 'brand' holds numbers; expected categories, as in the training data",
    ):
        ranker.predict(np.zeros((2, 2)))
    plain = tr.Ranker(n_estimators=2).fit(shop()[["price"]], shop().label, qid=shop().qid)
    with pytest.raises(
        DataError,
        match="column 'price' holds categories; expected numbers, as in the training data",
    ):
        plain.predict(pd.DataFrame({"price": pd.Categorical(["a"])}))


def test_a_lazy_frame_is_collected():
    frame = pl.from_pandas(shop()[["qid", "label", "price"]])
    assert np.array_equal(
        tr.RankingData.from_frame(frame.lazy()).X, tr.RankingData.from_frame(frame).X
    )
