"""Tables on the command line: categories, weights and propensities by column."""

import numpy as np
import pytest

import tautrank as tr
from tests.command_line import run
from tests.ranker.test_inputs_categories import LENGTH, QUERIES, shop


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A shop in table.csv: with a title, brands as text, a weight per query and a propensity per
    row.
    """
    frame = shop().assign(title="a shoe", weight=np.repeat(1.0 + np.arange(QUERIES) % 3, LENGTH))
    frame = frame.assign(seen=np.tile(1 / (1.0 + np.arange(LENGTH)), QUERIES).astype(np.float32))
    monkeypatch.chdir(tmp_path)
    frame[::-1].to_csv("table.csv", index=False)
    return frame[::-1].reset_index(drop=True)


def test_categories_weights_and_propensities_are_those_of_python(table, capsys):
    code, _, err = run(
        capsys,
        "train table.csv -o m.taut --loss xendcg --trees 4 --categorical brand --weights weight --propensity seen "
        "--valid table.csv",
    )
    assert (code, err.count("left out 'title'")) == (0, 2)
    data = tr.RankingData.from_frame(table, drop=["title", "weight", "seen"])
    ranker = tr.Ranker("xendcg", n_estimators=4).fit(
        data, data, weights=table.weight, propensities=table.seen
    )
    loaded = tr.Ranker.load("m.taut")
    assert loaded.categories_ == {"brand": ("alpha", "mid", "zeta")}
    assert np.allclose(loaded.predict(data), ranker.predict(data))
    # The model says which columns are categories.
    code, out, _ = run(capsys, "rank --model m.taut table.csv -o -")
    assert code == 0
    assert np.allclose(np.array(out.split(), float), data.in_source_order(ranker.predict(data)))


def test_explain_names_the_columns_of_a_table(table, capsys):
    named = table.rename(columns={"qid": "search"}).assign(
        sku=[f"sku{10**i}" for i in range(len(table))]
    )
    named.to_csv("named.csv", index=False, sep=";")
    reading = "--doc sku --separator ';' --features price"
    assert run(capsys, f"train named.csv -o m.taut --trees 2 --qid search {reading}")[0] == 0
    query = table.qid[0]
    code, out, _ = run(
        capsys, f"explain m.taut named.csv --qid {query} --qid-column search {reading}"
    )
    assert (code, f"named.csv, query {query}: {LENGTH} documents" in out, "sku1 " in out) == (
        0,
        True,
        True,
    )
    assert (
        len({line.index(" ", line.index("sku")) for line in out.splitlines()[1:]}) == 1
    )  # ids of any length


def test_named_features_and_wrong_columns(table, capsys):
    code, _, _ = run(
        capsys, "train table.csv -o m.taut --trees 2 --features price --weights weight"
    )
    assert code == 0
    assert tr.Ranker.load("m.taut").feature_names_in_.tolist() == ["price"]
    code, _, err = run(capsys, "train table.csv -o m.taut --trees 2 --weights wieght")
    assert (code, "weights: unknown column of numbers 'wieght'; did you mean 'weight'?" in err) == (
        2,
        True,
    )
    with open("letor.txt", "w") as file:
        file.write("1 qid:1 1:0\n0 qid:1 1:1\n")
    code, _, err = run(capsys, "train letor.txt -o m.taut --trees 2 --weights weight")
    assert (code, err) == (2, "error: letor.txt: weights: expected a table\n")
    code, _, err = run(capsys, "train letor.txt -o m.taut --trees 2 --categorical brand")
    assert (code, "categorical: found with letor.txt, which is read as LETOR text" in err) == (
        2,
        True,
    )
