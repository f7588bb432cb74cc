"""ranx: both gains, ties by the order of its own sort, queries without a relevant document worth
0.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import tautrank.metrics as M

from .lists import LOG2, Lists, agree, one, random_lists

MEASURES = {
    "ndcg": ("ndcg", {"gain": "linear"}),
    "ndcg@5": ("ndcg@5", {"gain": "linear"}),
    "ndcg_burges": ("ndcg", {}),
    "ndcg_burges@1": ("ndcg@1", {}),
    "ndcg_burges@5": ("ndcg@5", {}),
    "ndcg_burges@100": ("ndcg@100", {}),
    "dcg": ("dcg", {"gain": "linear"}),
    "dcg_burges@5": ("dcg@5", {}),
    "mrr": ("mrr", {}),
    "mrr@3": ("mrr@3", {}),
    "map": ("map", {}),
    "map@5": ("map@5", {}),
    "precision": ("precision", {}),
    "precision@5": ("precision@5", {}),
    "precision@100": ("precision@100", {}),
    "recall": ("recall", {}),
    "recall@5": ("recall@5", {}),
    "recall@5-l3": ("recall@5", {"relevant": 3}),
    "map-l3": ("map", {"relevant": 3}),
    "f1": ("f1", {}),
    "f1@5": ("f1@5", {}),
    "f1@5-l3": ("f1@5", {"relevant": 3}),
    "hit_rate@1": ("success@1", {}),
    "hit_rate@5": ("success@5", {}),
    "r-precision": ("r-precision", {}),
    "rbp.80": ("rbp", {"graded": True}),
    "rbp.95": ("rbp", {"graded": True, "p": 0.95}),
}

# A process of its own, because compiling ranx takes over half a minute and the switch that spares
# it holds for a whole process. The Python that runs instead is the same source.
WORKER = """
import json, sys
from ranx import Qrels, Run, evaluate
for line in sys.stdin:
    qrels, run, measures = json.loads(line)
    run = Run(run)
    found = evaluate(Qrels(qrels), run, measures, return_mean=False)
    if len(measures) == 1:
        found = {measures[0]: found}
    print(json.dumps({name: [float(v) for v in values] for name, values in found.items()}), flush=True)
"""


class Ranx:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, qrels: dict, run: dict, measures: list[str]) -> dict[str, list[float]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([qrels, run, measures]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def lists(self, lists: Lists, measures: list[str]) -> dict[str, list[float]]:
        """Judge every list; -inf means that the run does not have the document."""
        qrels = {
            f"{q:03d}": {f"d{i}": int(v) for i, v in enumerate(y)} for q, (_, y) in enumerate(lists)
        }
        run = {
            f"{q:03d}": {f"d{i}": float(v) for i, v in enumerate(s) if v > -np.inf}
            for q, (s, _) in enumerate(lists)
        }
        return self.ask(qrels, run, measures)

    def one(self, measure: str, scores: list[float], labels: list[float]) -> float:
        documents = [f"d{i}" for i in range(len(labels))]
        qrels, run = (
            dict(zip(documents, labels, strict=True)),
            dict(zip(documents, scores, strict=True)),
        )
        return self.ask({"q": qrels}, {"q": run}, [measure])[measure][0]


@pytest.fixture(scope="module")
def ranx() -> Iterator[Ranx]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    with process:
        yield Ranx(process)
        assert process.stdin is not None
        process.stdin.close()


# --- where conventions coincide ---


def test_without_ties(ranx):
    lists = random_lists(6)
    for theirs, values in ranx.lists(lists, list(MEASURES)).items():
        ours, options = MEASURES[theirs]
        agree(lists.ours(ours, empty="zero", **options), values)


def test_documents_that_were_not_retrieved(ranx):
    lists = random_lists(7, shortest=2)
    lost = np.random.default_rng(1).random(lists.scores.size) < 0.3
    lost[lists.offsets[:-1]] = False
    lists = Lists(np.where(lost, -np.inf, lists.scores), lists.labels, lists.offsets)
    for theirs, values in ranx.lists(lists, list(MEASURES)).items():
        ours, options = MEASURES[theirs]
        agree(lists.ours(ours, empty="zero", **options), values)


def test_preset_by_the_name_it_has_there(ranx):
    lists = random_lists(41, shortest=2)
    theirs = [measure for measure in MEASURES if "-l" not in measure]
    for measure, values in ranx.lists(lists, theirs).items():
        ours, options = MEASURES[measure]
        assert M.metric(measure, like="ranx") == M.metric(
            ours, ties="input", empty="zero", **options
        )
        agree(lists.ours(measure, like="ranx"), values)


def test_bpref_where_something_is_judged_irrelevant(ranx):
    lists = random_lists(42, shortest=4, empty=False)
    lists = Lists(
        lists.scores, np.where(np.arange(lists.labels.size) % 2, lists.labels, 0), lists.offsets
    )
    lists.labels[lists.offsets[:-1]] = 1
    lists.labels[lists.offsets[:-1] + 1] = 0
    lost = np.random.default_rng(1).random(lists.scores.size) < 0.3
    lost[lists.offsets[:-1]] = False
    lists = Lists(np.where(lost, -np.inf, lists.scores), lists.labels, lists.offsets)
    agree(lists.ours("bpref", like="ranx"), ranx.lists(lists, ["bpref"])["bpref"])


# --- where they do not ---


def test_bpref_without_anything_judged_irrelevant_is_no_number_there(ranx):
    assert np.isnan(ranx.one("bpref", [2.0, 1.0], [1, 1]))
    assert one("bpref", [2.0, 1.0], [1, 1]) == 1.0  # as in trec_eval


def test_rbp_earns_the_label_there(ranx):
    agree(ranx.one("rbp.80", [2.0, 1.0], [3, 0]), 0.2 * 3)
    agree(one("rbp", [2.0, 1.0], [3, 0]), 0.2)


def test_row_order_decides_ties(ranx):
    # One relevant row among six with one score: moving it through the rows moves it through the
    # ranks, all of them. Here every row gives the same.
    placements = np.eye(6, dtype=int)
    lists = Lists(np.zeros(36), placements.ravel(), np.arange(0, 37, 6))
    values = ranx.lists(lists, ["mrr"])["mrr"]
    agree(sorted(values, reverse=True), [1 / rank for rank in range(1, 7)])
    agree(lists.ours("mrr"), [1 / 6] * 6)
    # The mean of 1/1 ... 1/6.
    agree(lists.ours("mrr", ties="expected"), [sum(1 / rank for rank in range(1, 7)) / 6] * 6)


def test_the_plain_name_has_the_linear_gain(ranx):
    y, s = [2, 1], [1.0, 2.0]
    agree(ranx.one("ndcg", s, y), (1 + 2 * LOG2[1]) / (2 + 1 * LOG2[1]))
    agree(ranx.one("ndcg_burges", s, y), (1 + 3 * LOG2[1]) / (3 + 1 * LOG2[1]))
    agree(one("ndcg", s, y), (1 + 3 * LOG2[1]) / (3 + 1 * LOG2[1]))


def test_empty_queries_are_zero_and_counted(ranx):
    for measure in ("ndcg", "ndcg_burges", "mrr", "map", "precision", "recall"):
        assert ranx.one(measure, [1.0, 2.0], [0, 0]) == 0.0
    assert np.isnan(one("ndcg", [1.0, 2.0], [0, 0]))


def test_labels_below_one_do_not_exist_there(ranx):
    # Labels .5 and 1.5, wrong order: the first falls below ranx's level 1, which leaves 1.5 alone,
    # at rank 2.
    y, s = [1.5, 0.5], [1.0, 2.0]
    agree(ranx.one("ndcg", s, y), LOG2[1])
    agree(one("ndcg", s, y, gain="linear"), (0.5 + 1.5 * LOG2[1]) / (1.5 + 0.5 * LOG2[1]))
