"""What Optuna does for a search: draws by seed and number, and the pruning of trials that fall
behind.
"""

from __future__ import annotations

from dataclasses import replace

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tautrank.experiments.proposer import Proposer
from tautrank.experiments.search import SearchOptions, declare_search
from tautrank.experiments.space import Choice, Search, WholeNumber
from tautrank.experiments.store import DONE
from tautrank.experiments.trial import PRUNED
from tautrank.experiments.tuning import TriedConfiguration
from tests.experiments.test_space import ranges

OPTIONS = SearchOptions()


@pytest.fixture(scope="module")
def search():
    return declare_search("mse", "ndcg@5", {"num_leaves": ("int", 2, 9)}, {"n_estimators": 20})


@given(ranges, st.integers(0, 2**31 - 1), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_a_draw_lies_in_its_range_and_depends_on_seed_and_number_alone(search, one, seed, number):
    search = replace(search, search=Search({}, {"mse": {"x": one}}))
    options = SearchOptions(seed=seed)
    late = Proposer(search, options)
    late.propose(number + 1)
    drawn = Proposer(search, options).propose(number)["x"]
    assert late.propose(number)["x"] == drawn
    if isinstance(one, Choice):
        assert drawn in one.values
    else:
        assert one.low <= drawn <= one.high
        assert isinstance(drawn, int) == isinstance(one, WholeNumber)


def run(proposer: Proposer, number: int, curve: list[float]) -> tuple[str, int]:
    """Run a trial with this curve of best values, one per tree."""
    ended = TriedConfiguration(number, proposer.propose(number), DONE, curve[-1], grown=len(curve))
    for trees in (trees for trees in proposer.checkpoints if trees <= len(curve)):
        ended = replace(ended, curve=(*ended.curve, curve[trees - 1]))
        if proposer.falls_behind(ended, (trees, curve[trees - 1])):
            ended = replace(ended, state=PRUNED, grown=trees)
            break
    proposer.end(ended)
    return ended.state, ended.grown


def test_a_trial_below_the_median_is_pruned_but_not_before_a_quarter_of_the_trees(search):
    proposer = Proposer(search, OPTIONS)
    for number, level in enumerate(
        (0.1, 0.2, 0.3, 0.4, 0.5)
    ):  # the first five are all trained to the end
        assert run(proposer, number, [level] * 20) == (DONE, 20)
    assert run(proposer, 5, [0.29] * 20) == (PRUNED, 5)
    assert run(proposer, 6, [0.31] * 20) == (DONE, 20)  # median of five: 0.3
    # Slow to start, and best in the end: the median of six is 0.305.
    assert run(proposer, 7, [0.0] * 4 + [0.306] * 10 + [0.9] * 6) == (DONE, 20)


def test_a_training_that_stopped_early_counts_with_its_best_value_at_later_trees(search):
    proposer = Proposer(replace(search, parameters={"n_estimators": 40}), OPTIONS)
    for number in range(5):  # the last tree, after the last checkpoint, is the best
        assert run(proposer, number, [0.3] * 10 + [0.5]) == (DONE, 11)
    assert run(proposer, 5, [0.4] * 40) == (PRUNED, 12)
    assert run(proposer, 6, [0.6] * 10 + [0.4] * 30) == (
        DONE,
        40,
    )  # its best value so far is what counts


def test_a_cost_is_pruned_above_the_median():
    search = declare_search("mse", "arp", {"num_leaves": ("int", 2, 9)}, {"n_estimators": 20})
    proposer = Proposer(search, OPTIONS)
    for number in range(5):
        run(proposer, number, [5.0] * 20)
    assert run(proposer, 5, [5.1] * 20) == (PRUNED, 5)
    assert run(proposer, 6, [4.9] * 20) == (DONE, 20)


def test_optuna_is_silent_and_left_as_it_was(search, capfd):
    before = optuna.logging.get_verbosity()
    run(Proposer(search, OPTIONS), 0, [0.5] * 20)
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert optuna.logging.get_verbosity() == before
