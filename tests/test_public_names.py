"""The public interface: `__all__` of tautrank and of its rooms, and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import tautrank

PUBLIC = {
    "tautrank": """
        DataError Evaluation Langevin ListFeatures Metric MissingDependencyError OptionError
        Ranker RankingData Result TautrankError TautrankWarning checks compare compare_runs
        data evaluate export_model loss losses metric metrics read read_distributed read_letor
        side_by_side significance simulate systems_test theory torch_loss tune
    """,
    "tautrank.checks": """
        CHECKS Check Law LossReport Measurement Outcome Theorem check_loss check_losses law
        measurement theorem
    """,
    "tautrank.compat": """
        LGBMRanker
    """,
    "tautrank.data": """
        DataSummary JudgedRun Lists RankingData Splits StreamedRows judge_run list_folds read
        read_csv read_folder read_letor read_parquet read_qrels read_run read_scores
        read_streamed write_letor
    """,
    "tautrank.engines": """
        AnyLoss Callback DEFAULTS DEFAULT_ENGINE Engine FittedModel Learner NativeLoss Record
        Settings Step Task engine_for members_of read_loss
    """,
    "tautrank.experiments": """
        Budget Change Choice Comparison Condition FixedParts Measurement OnItself OwnFolds
        Resampling Result Search Store System Tuning Uniform WholeNumber
    """,
    "tautrank.export": """
        FORMATS export_model
    """,
    "tautrank.losses": """
        ARPLoss1 ARPLoss2 ApproxNDCG Frozen LambdaLoss LambdaRank ListLoss ListNet Loss MSE
        NDCGLoss1 NDCGLoss2 NDCGLoss2PP NeuralNDCG Objective PLRank REGISTRY RankNet Reinforce
        SampledLoss ScaleFreeMetric SmoothNDCG SmoothedLoss SoftRank SoftmaxLoss
        StochasticRank XENDCG YetiLoss loss register
    """,
    "tautrank.metrics": """
        ARP AUC BPref BoundMetric DCG DCGRR Discount ERR Evaluation F1 Gain JudgedShare
        LambdaRankMetric ListMetric MAP METRICS MRR Metric NDCG Precision RBP RPrecision
        Recall Success TOOLS discount_values evaluate gain_values metric rank_order register
    """,
    "tautrank.papers": """
        Better BetterUnder Budget CATALOGUE Condition Converges FixedParts GapGrows LeadsEarly
        OTHER_DATA OnItself OwnFolds PaperTest Printed Reaches Recipe Resampling Study
        StudyResult find_study read_results run_study
    """,
    "tautrank.ranker": """
        ListFeatures Ranker Ranking
    """,
    "tautrank.significance": """
        Interval SystemsTest TestResult bootstrap_interval corrected_resampled_t_test holm
        paired_t_test randomisation_test systems_test
    """,
    "tautrank.simulate": """
        add_negatives binarise five_documents perturb_labels simulate_clicks
        simulate_position_clicks simulate_web_search
    """,
    "tautrank.theory": """
        BestGamma Bound ConsistentSmoothing Directness Iterations JensenClouds Lipschitz
        Smoothed SoftRankCurve Surrogate consistent_smoothing descends directness
        directness_among generalisation_error jensen_clouds jensen_gap lambdaloss_bound
        lambdarank_metric_bound lipschitz log_box_covering majorise_minimise ndcg_cost_bound
        optimal_gamma smallest_eigenvalue smallest_jensen_gap smoothed_metric smoothing_limit
        softmax_mrr_bound softmax_ndcg_bound softrank_bound softrank_bound_as_stated
        softrank_curve softrank_ndcg_bound softrank_sigma_limit softrank_sigma_limit_as_stated
        spectral_gap spread_scorings surrogate xe_ndcg_bound
    """,
}
ROOMS = {
    f"tautrank.{module.name}" for module in pkgutil.iter_modules(tautrank.__path__) if module.ispkg
}
WITHOUT_PUBLIC_NAMES = {"tautrank.commands", "tautrank.kernels", "tautrank.report"}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_these(module):
    names = importlib.import_module(module).__all__

    assert len(names) == len(set(names))
    assert sorted(names) == sorted(PUBLIC[module].split())


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_there(module):
    room = importlib.import_module(module)

    missing = [name for name in room.__all__ if not hasattr(room, name)]

    assert not missing


def test_every_room_says_what_is_public_in_it():
    assert {*PUBLIC, *WITHOUT_PUBLIC_NAMES} == {*ROOMS, "tautrank"}
    for module in WITHOUT_PUBLIC_NAMES:
        assert not hasattr(importlib.import_module(module), "__all__")


def test_dir_lists_the_public_names():
    assert dir(tautrank) == sorted(tautrank.__all__)


@pytest.mark.parametrize("room", ["compat", "data", "significance", "theory"])
def test_rooms_are_attributes_of_tautrank(room):
    code = f"import tautrank; print(tautrank.{room}.__name__)"

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )

    assert printed.stdout.strip() == f"tautrank.{room}"


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match="module 'tautrank' has no attribute 'read_parquet'"):
        _ = tautrank.read_parquet
