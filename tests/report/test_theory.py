"""The table of checks."""

from __future__ import annotations

from tautrank.checks import CHECKS, Theorem, check_loss
from tautrank.data import Lists
from tautrank.report.theory import check_table, short_citation


def test_one_row_per_check_with_what_was_found() -> None:
    names = ["finite", "softrank-sigma-limit", "xe-ndcg", "lipschitz"]
    report = check_loss("softrank", Lists.of([2, 0, 1, 0, 1], [0, 3, 5]), names=names)
    rows = {
        row[0].text: [cell.text for cell in row[1:]]
        for row in check_table(report, reasons=True).rows
    }
    assert list(rows) == names
    assert rows["finite"] == ["holds", "2", CHECKS["finite"].statement]
    assert rows["xe-ndcg"] == ["does not apply", "2", "it is about xendcg without noise"]
    steepest, _, text = rows["lipschitz"]
    assert 0 < float(steepest) < 1
    assert text.startswith(f"{CHECKS['lipschitz'].statement}: {steepest} at scores some 30 apart")
    status, _, text = rows["softrank-sigma-limit"]
    assert status == "refuted"
    assert "(He and Liu 2008, Theorem 2 as stated): with 2 documents delta apart: " in text
    assert text.endswith(
        f"[a known error of the paper, not of the loss: {CHECKS['softrank-sigma-limit'].flaw}]"
    )
    assert [row[0].text for row in check_table(report).rows] == [
        "finite",
        "softrank-sigma-limit",
        "lipschitz",
    ]


def test_citations_are_short() -> None:
    for each in CHECKS.values():
        if isinstance(each, Theorem) and each.paper:
            short = short_citation(each.paper)
            assert len(short) < len(each.paper)
            assert any(year in short for year in ("2008", "2018", "2019", "2020"))
    assert short_citation("somewhere") == "somewhere"
