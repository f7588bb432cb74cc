"""The catalogue of studies: complete, true to the papers, and every study runs to the end."""

from __future__ import annotations

import json
import math
import re
import warnings
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import RankingData, Splits
from tautrank.engines import NativeLoss, read_loss
from tautrank.errors import DataError
from tautrank.experiments.changes import apply_changes
from tautrank.experiments.measurements import measure_directness, measure_softrank_distance
from tautrank.experiments.plan import PLAIN, Budget, Measurement
from tautrank.experiments.protocols import Draw
from tautrank.experiments.space import with_parameters
from tautrank.experiments.trial import run_trial
from tautrank.experiments.workers import choose_workers
from tautrank.json_values import canonical, from_json, to_json
from tautrank.papers import catalogue
from tautrank.papers.catalogue import (
    CATALOGUE,
    directness,
    lambdaloss,
    softmax_binary,
    stochasticrank,
    xe_ndcg,
)
from tautrank.papers.claims import Better, GapGrows
from tautrank.papers.plan import PUBLISHED, make_plan
from tautrank.papers.results import StudyResult
from tautrank.papers.run import run_study
from tautrank.papers.store import StudyStore
from tautrank.papers.study import OTHER_DATA, Recipe, Study
from tautrank.simulate import simulate_web_search

MODULES = (xe_ndcg, softmax_binary, lambdaloss, stochasticrank, directness)
PAPERS = {
    "xe-": "xe-ndcg.md",
    "binary-": "softmax-binary.md",
    "lambdaloss-": "lambdaloss.txt",
    "stochasticrank-": "stochasticrank.md",
    "directness-": "directness-softrank.md",
}
DOCS = Path(__file__).parents[2] / "docs" / "studies.md"

each_study = pytest.mark.parametrize("study", CATALOGUE.values(), ids=lambda s: s.name)


def declared_in(module: ModuleType) -> list[Study]:
    return [value for value in vars(module).values() if isinstance(value, Study)]


def printed_in(recipe: Recipe) -> dict[tuple[str, str, str, str], float]:
    """The numbers in print by (condition, system, metric, part)."""
    return {(p.condition, p.system, p.metric, p.part): p.value for p in recipe.printed}


# -------------------------------------------------------------------------------------------------------
# declarations


def test_no_name_is_taken_twice() -> None:
    assert len(CATALOGUE) == sum(len(declared_in(module)) for module in MODULES)
    assert len({study.title for study in CATALOGUE.values()}) == len(CATALOGUE)
    # A paper whose module nobody listed would be missing without a word.
    files = {file.stem for file in Path(catalogue.__file__).parent.glob("*.py")} - {
        "__init__",
        "declarations",
    }
    assert files == {module.__name__.rpartition(".")[2] for module in MODULES}


def test_every_table_and_figure_is_there() -> None:
    places = {
        re.split(r", (?=Table|Figure|Theorem)", study.paper)[1] for study in declared_in(xe_ndcg)
    }
    assert places == {
        "Table 1",
        "Figure 1",
        "Figure 2",
        "Figures 3a and 3b",
        "Figures 3c and 3d",
        "Figure 4",
    }
    wanted = {"table3", "table4", "table5", "figure3", "figure4", "figure5"}
    assert {study.name.removeprefix("lambdaloss-") for study in declared_in(lambdaloss)} == wanted
    assert [study.name for study in declared_in(softmax_binary)] == ["binary-table1"]
    wanted = {"table1", "table2-ndcg", "table2-mrr", "table3"}
    assert {
        study.name.removeprefix("stochasticrank-") for study in declared_in(stochasticrank)
    } == wanted


@each_study
def test_a_declaration_says_everything(study: Study) -> None:
    assert study.name.startswith(tuple(PAPERS))
    for text in (study.title, study.paper, study.claim):
        assert text
        assert text[0].isupper()
        assert "\n" not in text
        assert not text.endswith(".")
    assert study.note.endswith(".")
    assert "  " not in study.note
    assert study.claims, "nothing to judge"
    assert study.repeats > 1 or study.configurations, "one training without a search says little"
    assert bool(study.axis) == any(condition.value is not None for condition in study.conditions)
    known = {*PUBLISHED, OTHER_DATA, "five-documents"}
    assert {recipe.data for recipe in study.recipes} <= known
    assert OTHER_DATA not in [recipe.data for recipe in study.recipes[1:]], (
        "data that is not known takes the first"
    )


@each_study
def test_systems_and_metrics_are_what_they_print_as(study: Study) -> None:
    for system in study.systems:
        if isinstance(system, Measurement):
            continue
        loss = read_loss(system.loss)
        assert str(read_loss(str(loss))) == str(loss)
        for condition in study.conditions:
            for name in condition.metrics or study.metrics:
                assert str(tr.metric(name)) == name
            changed_loss = read_loss(with_parameters(system.loss, condition.loss))
            if not isinstance(changed_loss, NativeLoss):
                assert all(
                    getattr(changed_loss, name) == value for name, value in condition.loss.items()
                )


@each_study
def test_a_study_survives_json(study: Study) -> None:
    assert from_json(json.loads(canonical(to_json(study, "plan")))) == study


@each_study
def test_numbers_in_print_are_shares_of_one_cell_each(study: Study) -> None:
    for recipe in study.recipes:
        assert len(printed_in(recipe)) == len(recipe.printed)
        for printed in recipe.printed:
            assert 0.4 < printed.value < 1, printed
            assert printed.spread is None or 0 < printed.spread < 0.01


def test_every_line_of_numbers_in_print_belongs_to_a_recipe() -> None:
    lines = Path(catalogue.__file__).with_name("printed.csv").read_text().splitlines()[1:]
    used = {(study.name, recipe.data) for study in CATALOGUE.values() for recipe in study.recipes}
    assert {tuple(line.split(",")[:2]) for line in lines} <= used
    assert len(lines) == sum(
        len(recipe.printed) for study in CATALOGUE.values() for recipe in study.recipes
    )


@each_study
def test_conditions_build_on_any_data(study: Study) -> None:
    data = simulate_web_search(200, n_features=16, mean_length=8, seed=1)
    whole = Splits(*data.split([0.6, 0.2, 0.2], seed=0))
    for condition in study.conditions:
        splits = apply_changes(whole, condition.changes, seed=0)
        for change in condition.changes:
            assert "test" not in change.parts or change.kind == "binarise", "noise is for training"
            for part in change.parts:
                made, given = getattr(splits, part), getattr(whole, part)
                assert made.n_documents > 0
                if change.kind == "binarise":
                    assert set(made.labels) <= {0, 1}
                    assert (made.labels == (given.labels > 0)).all()
                elif change.kind == "add-negatives":
                    share = made.n_documents / given.n_documents - 1
                    assert share == pytest.approx(condition.value, abs=0.1)
                elif change.kind == "perturb-labels":
                    assert 0 < (made.labels != given.labels).mean() < condition.value
                elif change.kind == "clicks":
                    assert set(made.labels) <= {0, 1}
                    assert 5 * given.n_queries < made.n_queries <= 10 * given.n_queries


@each_study
def test_every_recipe_gives_definite_trainings(study: Study) -> None:
    for recipe in [recipe.data for recipe in study.recipes] or [""]:
        data = study.data or "simulated:simple:10,n_features=16,mean_length=5"
        plan = make_plan(study, data, budget=Budget(repeats=1), recipe=recipe)
        assert (
            len({trial.key for trial in plan.trials()})
            == plan.size
            == len(study.systems) * len(study.conditions)
        )
        for trial in plan.trials():
            if not study.measures_only:
                parameters = from_json(trial.spec["parameters"])
                assert parameters["n_estimators"] == study.trees
                tr.Ranker(loss=trial.spec["loss"], metric=trial.spec["metrics"][0], **parameters)


@pytest.mark.parametrize(
    "study", [s for s in CATALOGUE.values() if not s.measures_only], ids=lambda s: s.name
)
def test_searches_draw_what_rankers_take(study: Study) -> None:
    for system in study.systems:
        for configuration in study.search.draw(str(system), 20, (0,)):
            own = {
                name[5:]: value for name, value in configuration.items() if name.startswith("loss.")
            }
            loss = read_loss(with_parameters(system.loss, own))
            # A parameter that the loss does not have would be searched for nothing.
            assert all(getattr(loss, name) == value for name, value in own.items())
            langevin = {
                name[9:]: value
                for name, value in configuration.items()
                if name.startswith("langevin.")
            }
            assert not langevin or tr.Langevin(**langevin)
            assert bool(langevin) == ("langevin" in system.parameters) or not study.configurations


def test_appendix_f_is_searched() -> None:
    search = stochasticrank.TABLE2_NDCG.search
    drawn = {name: search.draw(name, 500, (0,)) for name in ("e-lambdamart", "sr")}
    rates = np.array([c["learning_rate"] for c in drawn["sr"]])
    assert 1e-3 <= rates.min() < 2e-3
    assert 0.5 < rates.max() <= 1
    assert np.median(np.log10(rates)) == pytest.approx(-1.5, abs=0.2)  # log-uniform
    assert {c["max_depth"] for c in drawn["sr"]} == {6, 7, 8, 9, 10}
    assert all(
        "reg_lambda" not in c and 1e8 <= c["langevin.temperature"] <= 1e11 for c in drawn["sr"]
    )
    assert all(1e-5 <= c["langevin.shrink_rate"] <= 1e-2 for c in drawn["sr"])
    assert all(
        0.1 <= c["reg_lambda"] <= 10 and 0 <= c["loss.strength"] <= 1 for c in drawn["e-lambdamart"]
    )
    # What all have in common is drawn alike, so that no system has better luck.
    assert [c["learning_rate"] for c in drawn["e-lambdamart"]] == rates.tolist()


# ---------------------------------------------------------------------------------------------------
# true to the papers


@each_study
def test_every_number_stands_in_its_paper(study: Study, shared_data: Path) -> None:
    paper = (
        shared_data.parent
        / "papers"
        / next(file for name, file in PAPERS.items() if study.name.startswith(name))
    )
    if not paper.is_file():
        pytest.skip(f"no text of the paper at {paper}")
    text = paper.read_text()
    for recipe in study.recipes:
        for printed in recipe.printed:
            shown = (
                f"{printed.value:.3f}"
                if printed.value in (0.903, 0.917)
                else f"{100 * printed.value:.2f}"
            )
            assert re.search(rf"(?<![\d.]){re.escape(shown)}(?!\d)", text), printed
            if printed.spread is not None:
                assert f"pm {100 * printed.spread:.2f}" in text


# Where a paper's own numbers do not show what it says of most of them.
CONTRADICTED = {("stochasticrank-table2-ndcg", "web30k", "sr is better than sr-soft on ndcg@5")}


@each_study
def test_the_papers_own_numbers_bear_out_its_claims(study: Study) -> None:
    for recipe in study.recipes:
        numbers = printed_in(recipe)
        for claim in study.claims:
            for cells in claim.cells(study.condition_names):
                places = [(*cell, claim.part) for cell in cells]
                if claim.of_curves or not all(place in numbers for place in places):
                    continue
                found = claim.advantage(
                    lambda cell, c=claim, n=numbers: np.array([n[(*cell, c.part)]]), cells
                )[0]
                expected = (study.name, recipe.data, claim.sentence(cells)) not in CONTRADICTED
                assert (found > 0) == expected, (recipe.data, claim.sentence(cells))


def test_gains_that_the_binary_paper_prints() -> None:
    gains = {"web30k": (5.3, 4.2, 3.1, 2.3), "yahoo1": (1.7, 1.2, 0.7, 0.4)}
    for data, expected in gains.items():
        numbers = printed_in(softmax_binary.TABLE1.recipe(data))
        cells = [
            (condition, name)
            for condition in ("graded", "binary")
            for name in ("ndcg@5", "ndcg@10")
        ]
        for (condition, name), gain in zip(cells, expected, strict=True):
            a, b = (
                numbers[condition, system, name, "test"] for system in ("lambdamart", "listnet")
            )
            # The paper's gains are of numbers with more digits than it prints.
            assert 100 * (a / b - 1) == pytest.approx(gain, abs=0.06)


def test_gains_that_the_lambdaloss_paper_prints() -> None:
    numbers = printed_in(lambdaloss.TABLE3.recipe("web30k"))
    metric = lambdaloss.TABLE3.metrics[0]
    for system, gain in (("ndcg-loss2", 1.86), ("ndcg-loss2++", 1.58)):
        ratio = (
            numbers[PLAIN, system, metric, "test"] / numbers[PLAIN, "lambdamart", metric, "test"]
        )
        assert 100 * (ratio - 1) == pytest.approx(gain, abs=0.01)


def test_tables_of_one_paper_agree() -> None:
    for recipe in lambdaloss.TABLE5.recipes[1:]:
        metric = lambdaloss.TABLE5.metrics[0]
        place = (PLAIN, "lambdamart", metric, "train")
        assert printed_in(recipe)[place] == printed_in(lambdaloss.TABLE4.recipe(recipe.data))[place]
        assert recipe.parameters == lambdaloss.TABLE4.recipe(recipe.data).systems["lambdamart"]
    ablation = printed_in(stochasticrank.TABLE3.recipe("yahoo1"))
    whole = printed_in(stochasticrank.TABLE2_NDCG.recipe("yahoo1"))
    for step, system in (("ccs+sfa+sglb", "sr-soft"), ("ccs+sfa+sglb+mu", "sr")):
        assert ablation[PLAIN, step, "ndcg@5", "test"] == whole[PLAIN, system, "ndcg@5", "test"]
        assert (
            stochasticrank.TABLE3.system(step).loss
            == stochasticrank.TABLE2_NDCG.system(system).loss
        )


def test_parameters_that_papers_print() -> None:
    def of(study: Study, data: str, system: str, condition: str = PLAIN) -> dict[str, object]:
        plan = make_plan(
            study,
            "simulated:simple:6,n_features=16,mean_length=4",
            recipe=data,
            budget=Budget(repeats=1),
        )
        found = [
            t.spec
            for t in plan.trials()
            if t.spec["system"] == system and t.spec["condition"] == condition
        ]
        return dict(from_json(found[0]["parameters"]))

    yahoo = of(xe_ndcg.TABLE1, "yahoo1", "lambdamart")
    assert (yahoo["num_leaves"], yahoo["min_child_samples"], yahoo["lambdarank_norm"]) == (
        200,
        100,
        False,
    )
    assert (yahoo["learning_rate"], yahoo["n_estimators"], yahoo["early_stopping_rounds"]) == (
        0.02,
        500,
        50,
    )
    # Only Yahoo!'s binary labels had another limit.
    hessians = {
        (data, condition): of(softmax_binary.TABLE1, data, "listnet", condition)[
            "min_sum_hessian_in_leaf"
        ]
        for data in ("web30k", "yahoo1")
        for condition in ("graded", "binary")
    }
    assert list(hessians.values()) == [100, 100, 10, 400]
    web10k = of(lambdaloss.TABLE4, "web10k", "ndcg-loss2++")
    assert (
        web10k["num_leaves"],
        web10k["min_sum_hessian_in_leaf"],
        web10k["min_child_samples"],
    ) == (100, 1, 5)
    ten, large = (
        of(lambdaloss.FIGURE3, "web30k", system, "5") for system in ("ten leaves", "large trees")
    )
    assert (ten["num_leaves"], large["num_leaves"]) == (10, 255)


# -------------------------------------------------------------------------------------------------------
# measurements


def test_distance_of_two_documents_is_in_closed_form() -> None:
    """One relevant document of two: noise swaps them with probability erfc(delta / (2 sigma)) /
    2.
    """
    data = RankingData.from_arrays([[0.0]] * 4, [1, 0, 0, 1], group=[2, 2])
    for sigma, delta in ((0.5, 1.0), (2.0, 3.0)):
        found = measure_softrank_distance(data, 3, sigma=sigma, delta=delta)
        swapped = math.erfc(delta / (2 * sigma)) / 2
        expected = 1 - swapped * (1 - 1 / math.log2(3))
        assert found["values"]["nearness"] == pytest.approx([expected] * 2, abs=1e-12)
        assert found["points"]["distance"] == pytest.approx(1 - expected, abs=1e-12)


def test_distance_leaves_out_what_bounds_do_not_say() -> None:
    values = measure_softrank_distance(None, 0, sigma=1.0, lists=5)["values"]
    assert values["within-bound"] == [None] * 5
    assert values["within-bound-by-contests"] == [1.0] * 5
    no_gain = RankingData.from_arrays([[0.0]] * 2, [0, 0], group=[2])
    assert measure_softrank_distance(no_gain, 0)["values"]["nearness"] == [None]


def test_directness_is_that_of_the_theory() -> None:
    data = simulate_web_search(20, n_features=16, mean_length=8, seed=2)
    scorings = tr.theory.spread_scorings(data, seed=5)
    expected = tr.theory.directness_among("ndcg-loss2", scorings, data, seed=5)
    values = measure_directness(data, 5, loss="ndcg-loss2")["values"]
    assert values["directness"] == [-(2 * expected.eps1 + expected.eps2)]
    assert values["cost"] == [expected.difference]
    assert values["within-guarantee"] == [1.0]


# -------------------------------------------------------------------------------------------------------------
# running


@pytest.fixture(scope="module")
def few_queries(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty queries of MQ2008, in one file."""
    with (shared_data / "mq2008" / "S1.txt").open() as file:
        queries = [list(lines) for _, lines in groupby(file, key=lambda line: line.split()[1])]
    path = tmp_path_factory.mktemp("mq2008") / "few.txt"
    path.write_text("".join(line for query in queries[:50] for line in query))
    return path


def smallest(study: Study, data: Path) -> StudyResult:
    budget = Budget(repeats=2, trees=3, configurations=min(study.configurations, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tr.TautrankWarning)
        return run_study(
            study, study.data if study.data == "five-documents" else str(data), budget=budget
        )


@each_study
def test_every_study_runs_to_the_end(study: Study, few_queries: Path) -> None:
    result = smallest(study, few_queries)
    assert result.failures == ()
    assert result.n_done == result.plan.size == 2 * len(study.systems) * len(study.conditions)
    assert result.n_constant == 0, "parameters that no tree can be grown with"
    assert {v.sentence for v in result.verdicts} == {
        claim.sentence(cells)
        for claim in study.claims
        for cells in claim.cells(study.condition_names)
    }
    assert all(
        cell.means.size == 2 for cell in result.cells if not cell.metric.startswith("within-")
    )
    page = result.to_markdown()
    assert study.note in page
    assert study.claim in page


@pytest.mark.parametrize(
    "study", [s for s in CATALOGUE.values() if not s.measures_only], ids=lambda s: s.name
)
def test_every_study_can_be_searched(study: Study, few_queries: Path) -> None:
    """What is searched replaces what the recipe says, under whatever name LightGBM knows it."""
    plan = make_plan(
        study, study.data or str(few_queries), budget=Budget(repeats=1, trees=2, configurations=1)
    )
    result = run_trial(plan.trials()[-1].spec)
    assert set(result["configuration"]) == set(
        study.search.draw(study.system_names[-1], 1, (0,))[0]
    )


def test_a_claim_of_curves_is_about_their_best_so_far(few_queries: Path) -> None:
    stopped = replace(
        xe_ndcg.FIGURE2, parameters={**xe_ndcg.FIGURE2.parameters, "early_stopping_rounds": 6}
    )
    trees = 30
    result = run_study(stopped, str(few_queries), budget=Budget(repeats=3, trees=trees))
    curves = [result.curves[PLAIN, system, "valid"] for system in ("xendcg", "lambdamart")]
    assert any(len(curve) < trees for curve in curves[0] + curves[1]), "nothing was stopped early"
    assert any(min(np.diff(curve)) < 0 for curve in curves[0] + curves[1]), "nothing ever got worse"
    wider = [
        (max(quick[:3]) - max(slow[:3])) - (max(quick) - max(slow))
        for quick, slow in zip(*curves, strict=True)
    ]
    assert result.verdicts[0].tested.difference == pytest.approx(np.mean(wider))


def test_a_claim_of_training_queries_is_about_them(few_queries: Path) -> None:
    result = smallest(lambdaloss.TABLE5, few_queries)
    metric = lambdaloss.TABLE5.metrics[0]
    for verdict, part, sign in zip(result.verdicts, ("train", "test"), (1, -1), strict=True):
        a, b = (
            result.cell(PLAIN, system, metric, part).mean for system in ("ndcg-loss2", "lambdamart")
        )
        assert verdict.tested.difference == pytest.approx(sign * (a - b))
    assert "of the training queries" in result.verdicts[0].sentence


def test_claims_name_parts_that_are_judged() -> None:
    study = lambdaloss.TABLE5
    with pytest.raises(tr.OptionError, match="unknown part of a claim 'valid'"):
        Study(
            name="x",
            title="X",
            paper="X",
            claim="X",
            systems=study.systems,
            metrics=study.metrics,
            claims=(
                Better(
                    better="ndcg-loss2", worse="lambdamart", metric=study.metrics[0], part="valid"
                ),
            ),
        )


def test_the_first_trial_has_the_published_parts(few_queries: Path) -> None:
    plan = make_plan(softmax_binary.TABLE1, str(few_queries), budget=Budget(repeats=3))

    data = plan.data.read()
    protocol = softmax_binary.TABLE1.protocol
    first, second, third = (protocol.divide(data, Draw(trial, 0, 7 * trial)) for trial in range(3))
    published = type(protocol)().divide(data, Draw())
    assert (first.train.qids == published.train.qids).all()
    assert set(second.train.qids) != set(first.train.qids) != set(third.train.qids)
    assert all((parts.test.qids == published.test.qids).all() for parts in (second, third))


def test_a_narrower_gap_on_binary_labels_is_a_relative_one() -> None:
    claim = next(claim for claim in softmax_binary.TABLE1.claims if isinstance(claim, GapGrows))
    numbers = printed_in(softmax_binary.TABLE1.recipe("web30k"))
    found = claim.advantage(lambda cell: np.array([numbers[(*cell, "test")]]), claim.cells(())[0])
    assert 100 * found[0] == pytest.approx(5.3 - 3.1, abs=0.1)


# ----------------------------------------------------------------------------------------------------------------
# docs


def tables() -> str:
    """The section of docs/studies.md that lists all studies."""
    lines: list[str] = []
    for module in MODULES:
        paper = re.split(r", (?=Table|Figure|Theorem)", declared_in(module)[0].paper)[0]
        lines += [
            f"### {paper}",
            "",
            "| study | claim | systems | conditions | trials | in print |",
        ]
        lines += ["|---|---|---|---|---|---|"]
        for study in declared_in(module):
            place = re.split(r", (?=Table|Figure|Theorem)", study.paper)[1]
            conditions = (
                "" if study.condition_names == (PLAIN,) else ", ".join(study.condition_names)
            )
            searched = (
                f", the best of {study.configurations} configurations"
                if study.configurations
                else ""
            )
            printed = ", ".join(
                f"{recipe.title} {len(recipe.printed)}"
                for recipe in study.recipes
                if recipe.printed
            )
            cells = [
                f"`{study.name}`: {place}",
                study.claim,
                ", ".join(study.system_names),
                f"{study.axis}: {conditions}" if study.axis else conditions,
                f"{study.repeats}{searched}",
                printed,
            ]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def test_docs_list_every_study() -> None:
    assert tables() in DOCS.read_text(), f"docs/studies.md should have:\n{tables()}"


def test_a_varied_study_runs_but_its_store_is_not_resumed(tmp_path: Path) -> None:
    varied, store = replace(CATALOGUE["xe-figure1"], version=7), tmp_path / "varied.db"
    assert run_study(varied, budget=Budget(repeats=1)).n_done == 1
    for trials in (1, 2):
        assert run_study(varied, store=store, budget=Budget(repeats=trials)).n_done == trials
    with (
        StudyStore(store) as opened,
        pytest.raises(DataError, match="holds version 7 of 'xe-figure1', this taut"),
    ):
        opened.run(choose_workers(1))


def test_searches_and_hessians_are_those_of_the_papers_text() -> None:
    # StochasticRank, appendix F: mu is log-uniform over [10^-2, 10]; XE-NDCG, sec. 4.4: both
    # softmax losses.
    for name, system in (
        ("table2-ndcg", "sr"),
        ("table2-mrr", "sr"),
        ("table3", "ccs+sfa+sglb+mu"),
    ):
        drawn = CATALOGUE[f"stochasticrank-{name}"].search.draw(system, 400, (0,))
        mus = np.log10([each["loss.mu"] for each in drawn])
        assert -2 <= mus.min() < -1.9
        assert 0.9 < mus.max() <= 1
        assert abs((mus > 0).mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / 400)
    softmax = [
        read_loss(s.loss)
        for s in CATALOGUE["xe-table1"].systems
        if not s.loss.startswith("lightgbm")
    ]
    assert {loss.hessian for loss in softmax} == {"neumann"}  # type: ignore[attr-defined]
