"""The page of two rankings: ranks, gains and reasons are those of the rankers, and the browser
shows them.
"""

from __future__ import annotations

import numpy as np
import pytest

import tautrank as tr
from tautrank.errors import DataError, OptionError
from tests.report.examples import DESKTOP, NASTY, PHONE


@pytest.fixture(scope="module")
def data():
    made = tr.simulate.simulate_web_search(12, n_features=16, mean_length=9, seed=3)
    ids = [f"d{i}" for i in range(made.n_documents - 1)] + [NASTY]
    return tr.RankingData(made.X, made.labels, made.offsets, made.qids, doc_ids=np.array(ids))


@pytest.fixture(scope="module")
def rankers(data):
    few = {"n_estimators": 5, "num_leaves": 4, "min_child_samples": 2, "n_jobs": 1}
    return tr.Ranker("lambdarank", **few).fit(data), tr.Ranker("mse", **few).fit(data)


def test_ranks_values_and_reasons_are_those_of_the_rankers(data, rankers):
    content = tr.side_by_side(*rankers, data, metric="ndcg@3", documents=4).sections[1].content
    values = [
        tr.metric("ndcg@3").per_query(r.predict(data), data.labels, data.offsets) for r in rankers
    ]
    at = {str(qid): i for i, qid in enumerate(data.qids)}
    explained = [ranker.explain(data) for ranker in rankers]
    scores = [ranker.predict(data) for ranker in rankers]
    assert len(content["queries"]) == np.sum(~np.isnan(values[0]))
    for query in content["queries"]:
        i = at[query["qid"]]
        rows = slice(data.offsets[i], data.offsets[i + 1])
        assert query["values"] == pytest.approx([v[i] for v in values], abs=5e-5)
        assert query["gain"] == pytest.approx(values[1][i] - values[0][i], abs=5e-5)
        shown = {document[0]: document for document in query["documents"]}
        for side, own in enumerate(scores):
            best = sorted(
                range(rows.start, rows.stop), key=lambda d, own=own: (-own[d], data.labels[d], d)
            )
            for rank, d in enumerate(best, 1):
                name = str(data.doc_ids[d])
                assert name in shown or rank > 4
                if name in shown:
                    assert shown[name][2 + side] == rank
                    reasons = shown[name][4 + side]
                    parts = explained[side].contributions[d]
                    expected = np.sort(np.abs(parts))[::-1][: len(reasons) // 2]
                    np.testing.assert_allclose(np.abs(reasons[1::2]), expected, rtol=5e-3)
                    np.testing.assert_allclose(
                        reasons[1::2], parts[np.array(reasons[::2], int)], rtol=5e-3
                    )


def test_scores_of_any_tool_have_no_reasons_and_a_lower_metric_is_a_gain(data):
    scores = -data.labels.astype(float), data.labels.astype(float)
    page = tr.side_by_side(*scores, data, metric="arp", names=("worst", "best"))
    queries = page.sections[1].content["queries"]
    assert all(query["gain"] >= 0 for query in queries)
    assert any(query["gain"] > 0 for query in queries)
    assert {len(document) for query in queries for document in query["documents"]} == {4}
    assert page.lead.startswith("best is above worst by")


def test_of_more_than_a_thousand_queries_the_page_has_those_that_changed_most():
    n_queries = 1_003
    rng = np.random.default_rng(0)
    labels = np.tile([2, 1, 0], n_queries)
    data = tr.RankingData.from_arrays(np.zeros((labels.size, 1)), labels, group=[3] * n_queries)
    old, new = rng.normal(size=labels.size), labels.astype(float)
    page = tr.side_by_side(old, new, data)

    metric = tr.metric("ndcg@10")
    before, after = (metric.per_query(scores, data.labels, data.offsets) for scores in (old, new))
    largest = np.sort(np.abs(after - before))[-1_000:]
    changes = sorted(abs(query["gain"]) for query in page.sections[1].content["queries"])
    assert changes == pytest.approx(largest.tolist(), abs=1e-4)
    remark = "Below are the 1,000 queries whose ndcg@10 changed most."
    assert page.sections[0].paragraphs[-1] == remark


def test_queries_that_the_metric_skips_are_counted():
    data = tr.RankingData.from_arrays(np.arange(6.0)[:, None], [1, 0, 0, 0, 2, 0], group=[2, 2, 2])
    page = tr.side_by_side(np.arange(6.0), -np.arange(6.0), data)
    assert [query["qid"] for query in page.sections[1].content["queries"]] == ["0", "2"]
    assert page.sections[0].paragraphs[1] == "Left out: 1 query that ndcg@10 skips."


def test_both_lists_end_at_the_same_rank(browser, tmp_path):
    # The first two of the new ranking were third and fourth: the old one is known to rank 4, the
    # new one to rank 3.
    data = tr.RankingData.from_arrays(np.arange(8.0)[:, None], [1, 0, 0, 0, 0, 0, 0, 0], group=[8])
    old, new = [8, 7, 6, 5, 4, 3, 2, 1], [6, 1, 8, 7, 2, 3, 4, 5]
    tr.side_by_side(old, new, data, documents=2).to_html(tmp_path / "page.html")
    shown = browser.new_page()
    shown.goto((tmp_path / "page.html").as_uri())
    ranks = [
        shown.locator(f".documents >> nth={side}").locator(".rank").all_inner_texts()
        for side in (0, 1)
    ]
    shown.close()
    assert ranks == [["1", "2", "3"]] * 2


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (
            {"a": [1.0]},
            DataError,
            r"A: found scores of shape \(1,\); expected a ranker, or \d+ scores",
        ),
        ({"b": float("nan")}, DataError, "B: found NaN; expected"),
        (
            {"names": ("x", "x")},
            OptionError,
            r"names: found \['x', 'x'\]; expected two names that differ",
        ),
        ({"documents": 0}, OptionError, "documents: found 0"),
        ({"labels": 0}, DataError, "data: found no query that ndcg@10 can judge; expected labels"),
    ],
)
def test_bad_input_is_one_sentence(data, change, error, sentence):
    scores = np.arange(float(data.n_documents))
    given = {"a": scores, "b": scores} | change
    if isinstance(given["b"], float):
        given["b"] = np.full(data.n_documents, given["b"])
    if "labels" in given:
        del given["labels"]
        data = tr.RankingData(data.X, data.labels * 0, data.offsets, data.qids)
    with pytest.raises(error, match=sentence):
        tr.side_by_side(given.pop("a"), given.pop("b"), data, **given)


def test_what_is_no_ranking_data_is_one_sentence(rankers):
    with pytest.raises(DataError, match="data: found int; expected RankingData"):
        tr.side_by_side(*rankers, 3)


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_browser_lists_searches_and_explains(browser, data, rankers, size, tmp_path):
    page = tr.side_by_side(*rankers, data, names=("old", "new"))
    page.to_html(tmp_path / "page.html")
    queries = page.sections[1].content["queries"]
    context = browser.new_context(**size, color_scheme="dark")
    shown, complaints = context.new_page(), []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.goto((tmp_path / "page.html").as_uri())
    assert shown.locator(".queries li").count() == len(queries)
    assert (
        shown.locator(".queries li").first.inner_text().split()[0]
        == min(queries, key=lambda q: q["gain"])["qid"]
    )
    shown.get_by_label("Order of the queries").select_option("largest gain first")
    best = max(queries, key=lambda q: q["gain"])
    assert shown.locator(".queries li").first.inner_text().split()[0] == best["qid"]
    assert shown.locator(".moves line").count() == len(best["documents"])
    shown.get_by_label("Search").fill(NASTY[:6])
    last = next(q for q in queries if any(d[0] == NASTY for d in q["documents"]))
    assert shown.locator(".queries li").all_inner_texts()[0].split()[0] == last["qid"]
    shown.locator(".documents button", has_text=NASTY).first.click()
    assert "what weighs most in its score" in shown.locator(".why").inner_text()
    assert shown.locator(".moves .picked").count() == 1
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert complaints == []
    context.close()
