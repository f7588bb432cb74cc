"""Which gamma, and which hessian? What the theory leaves to experiment; writes
docs/results/theory.md.

Run with `make results`. Finished trainings are kept in .bench, so it can be stopped and run again.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import tautrank as tr
from bench.data_sets import DATA
from bench.drawing import Series, write_picture
from bench.measured_page import Lines, compared, protocol, steps, watched, write_page
from tautrank import theory
from tautrank.data import Splits

GAMMAS = ("xendcg", "xendcg(gamma=tight)", "xendcg(gamma=1)", "xendcg(gamma=0)")
HESSIANS = ("neumann", "diagonal", "exact")
STAGES = (1, 2, 3, 5, 8, 12, 20, 30, 45, 70, 100)


def gammas(arguments: argparse.Namespace) -> Lines:
    """Does the tightest bound train the best ranker?"""
    yield from (
        "## Does the tightest gamma train the best ranker?",
        "",
        protocol(arguments, "ndcg@5"),
        "",
    )
    for name, folds in (*DATA.items(), ("simulated web search", simulated_folds)):
        result = compared(f"gamma, {name}", folds, GAMMAS, ("ndcg@5", "ndcg@10"), arguments)
        yield from (f"### {name}", "", result.to_markdown(), "")
        yield from steps(result, [(0, 1), (0, 2), (0, 3)])


def simulated_folds() -> list[Splits]:
    """300 queries of synthetic web search in five folds, divided as MQ2008's are: three parts, one,
    one.
    """
    parts = tr.simulate.simulate_web_search(300, n_features=40, mean_length=60, seed=1).split(
        [0.2] * 5, seed=0
    )
    around = [[parts[(i + step) % 5] for step in range(5)] for i in range(5)]
    return [Splits(tr.RankingData.concat(after[2:]), after[1], after[0]) for after in around]


def hessians(arguments: argparse.Namespace) -> Lines:
    """Which hessian needs the fewest trees?"""
    yield from (
        "## Which hessian converges in the fewest trees?",
        "",
        "100 trees at learning rate 0.1 with every other parameter at its default, on every fold. *Trees*: the number",
        "that reaches the training loss of the slowest of the three after 100. *Loss*: after 100 trees, relative to",
        "that of equal scores. *NDCG@5*: on the validation queries after the best number of trees, and that number.",
        "",
    )
    for name, folds in (*DATA.items(), ("simulated web search", simulated_folds)):
        splits = folds()
        yield from (
            f"### {name}",
            "",
            "| loss | hessian | trees | loss after 100 | NDCG@5 | at tree |",
            "|---|---|---|---|---|---|",
        )
        for family in ("listnet", "xendcg"):
            found = {
                hessian: [_curve(f"{family}(hessian={hessian})", fold) for fold in splits]
                for hessian in watched(HESSIANS, f"hessian, {name}, {family}")
            }
            goals = [
                max(found[hessian][i][0][-1] for hessian in HESSIANS) for i in range(len(splits))
            ]
            for hessian in HESSIANS:
                trees = [
                    _first_below(curve, goal)
                    for (curve, _, _), goal in zip(found[hessian], goals, strict=True)
                ]
                ends, best, at = np.mean(
                    [(curve[-1], best, at) for curve, best, at in found[hessian]], axis=0
                )
                yield f"| {family} | {hessian} | {np.mean(trees):.0f} | {ends:.3f} | {best:.4f} | {at:.0f} |"
        yield ""


def _curve(loss: str, fold: Splits) -> tuple[Any, float, int]:
    """Training loss by number of trees over that of equal scores, best validation NDCG@5, and its
    number of trees.
    """
    trees: dict[str, Any] = {
        "n_estimators": 100,
        "learning_rate": 0.1,
        "early_stopping_rounds": None,
    }
    ranker = tr.Ranker(loss=loss, metric="ndcg@5", n_jobs=1, verbose=0, **trees).fit(
        fold.train, fold.valid
    )
    objective = tr.loss(loss).bind(fold.train.labels, fold.train.offsets)
    start = objective.values(np.zeros(fold.train.n_documents)).mean()
    booster = ranker.model_.booster
    staged = [
        objective.values(booster.predict(fold.train.X, raw_score=True, num_iteration=n)).mean()
        / start
        for n in STAGES
    ]
    assert ranker.best_score_ is not None
    return np.array(staged), ranker.best_score_, ranker.best_iteration_


def _first_below(curve: Any, goal: float) -> float:
    """Where the curve first reaches the goal, between the stages by straight lines."""
    return float(np.interp(-goal, -np.concatenate(([1.0], curve)), np.concatenate(([0], STAGES))))


def pictures(arguments: argparse.Namespace) -> Lines:
    """The Jensen clouds of XE-NDCG's Figure 1, and SoftNDCG's distance from NDCG and its bounds."""
    clouds = theory.jensen_clouds(examples=12, draws=120)
    examples, draws = clouds.gaps.shape
    place = np.arange(1, examples + 1)
    spread = np.random.default_rng(0).uniform(-0.25, 0.25, (examples, draws)) + place[:, None]
    write_picture(
        "jensen.svg",
        [
            Series("a gamma drawn uniformly", spread, clouds.gaps),
            Series("the gamma of the smallest gap", place, clouds.smallest_gaps),
            Series(
                "the gamma of the tightest bound (smallest loss)",
                place,
                clouds.gaps_at_smallest_losses,
            ),
        ],
        title="Jensen gap by gamma: twelve lists of 100 documents",
        x_label="training example (100 documents)",
        y_label="Jensen gap",
    )
    scores, labels = np.arange(6.0), np.array([0, 2, 0, 1, 0, 0])
    curve = theory.softrank_curve(scores, labels, np.geomspace(0.14, 1.0, 40))
    write_picture(
        "directness.svg",
        [
            Series("|NDCG - SoftNDCG|", curve.sigma, curve.difference, line=True),
            Series("bound by contests", curve.sigma, curve.bound_by_contests, line=True),
            Series("Theorem 2, as its proof has it", curve.sigma, curve.bound, line=True),
            Series("Theorem 2, as stated", curve.sigma, curve.bound_as_stated, line=True),
        ],
        title="How SoftNDCG nears NDCG as sigma falls, and what bounds the distance",
        x_label="sigma (scores are 1 apart)",
        y_label="distance from NDCG",
        log_x=True,
        log_y=True,
    )
    yield from (
        "## Pictures",
        "",
        "XE-NDCG's Figure 1: each cloud is a list of 100 documents, each point a gamma.",
        "",
        "![Jensen gaps](../pictures/jensen.svg)",
        "",
        "SoftNDCG's distance from NDCG for six documents whose scores are 1 apart, and its bounds.",
        "",
        "![Directness of SoftRank](../pictures/directness.svg)",
        "",
    )


PARTS = {"pictures": pictures, "gammas": gammas, "hessians": hessians}


if __name__ == "__main__":
    sys.exit(
        write_page(
            "bench.theory_results",
            "Gammas and hessians: what the theory leaves to experiment",
            PARTS,
            tune=4,
            repeats=2,
        )
    )
