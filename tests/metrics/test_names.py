"""How metrics are typed, printed and refused: exact text."""

from __future__ import annotations

import dataclasses
import inspect
import pickle

import numpy as np
import pytest

from tautrank.errors import OptionError
from tautrank.metrics import (
    ARP,
    AUC,
    DCG,
    DCGRR,
    ERR,
    F1,
    MAP,
    METRICS,
    MRR,
    NDCG,
    RBP,
    BPref,
    JudgedShare,
    LambdaRankMetric,
    Precision,
    Recall,
    RPrecision,
    Success,
    metric,
    register,
)

# NumPy's warnings are unfinished thoughts: a division or a cast that was not looked at.
pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (NDCG(), "ndcg"),
        (NDCG(k=10), "ndcg@10"),
        (NDCG(k=10, ties="expected", gain="linear"), "ndcg(ties=expected,gain=linear)@10"),
        (NDCG(gain=(0, 1, 3, 7)), "ndcg(gain=0/1/3/7)"),
        (NDCG(gain=(0, 0.1, 3)), "ndcg(gain=0/0.1/3)"),
        (NDCG(gain=(2,)), "ndcg(gain=2/)"),
        (DCG(discount="reciprocal", empty="one"), "dcg(empty=one,discount=reciprocal)"),
        (DCG(discount=(1, 0.5)), "dcg(discount=1/0.5)"),
        (ERR(max_label=2), "err(max_label=2)"),
        (MRR(relevant=2.5, k=3), "mrr(relevant=2.5)@3"),
        (MAP(), "map"),
        (Precision(k=5), "precision@5"),
        (Recall(k=5, empty="zero"), "recall(empty=zero)@5"),
        (F1(k=5, divide_by="reachable"), "f1(divide_by=reachable)@5"),
        (ARP(), "arp"),
        (LambdaRankMetric(k=5), "lambdarank-metric@5"),
        (DCGRR(gain="exp2"), "dcg-rr(gain=exp2)"),
        (DCGRR(gain="linear"), "dcg-rr"),
        (Success(k=1), "success@1"),
        (RBP(p=0.95, graded=True), "rbp(p=0.95,graded=true)"),
        (BPref(ties="input"), "bpref(ties=input)"),
        (RPrecision(relevant=2), "r-precision(relevant=2)"),
        (AUC(), "auc"),
        (JudgedShare(k=10), "judged@10"),
        (MAP(k=5, divide_by="reachable"), "map(divide_by=reachable)@5"),
        (Precision(divide_by="reachable"), "precision(divide_by=reachable)"),
    ],
)
def test_print_and_parse(made, text):
    assert str(made) == text
    assert repr(made) == f"metric({text!r})"
    assert metric(text) == made
    assert hash(metric(text)) == hash(made)
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("NDCG@10", "ndcg@10"),
        ("  ndcg @ 10 ", "ndcg@10"),
        ("Ndcg( Ties = Expected , GAIN=linear )@10", "ndcg(ties=expected,gain=linear)@10"),
        ("ndcg()", "ndcg"),
        ("ndcg(k=10)", "ndcg@10"),
        ("ndcg(ties=worst)", "ndcg"),
        ("ndcg(gain=exp2,)", "ndcg"),
        ("mrr(relevant=none)", "mrr"),
        ("mrr(relevant=1e0)", "mrr(relevant=1)"),
        ("ndcg(gain=0/1e0/3.50)", "ndcg(gain=0/1/3.5)"),
        # What people type, and trec_eval, ranx and XGBoost call it.
        ("P@10", "precision@10"),
        ("AP", "map"),
        ("AP(relevant=2)@100", "map(relevant=2)@100"),
        ("hit@10", "success@10"),
        ("Success@1", "success@1"),
        ("RR@10", "mrr@10"),
        ("Rprec", "r-precision"),
        ("nDCG@10", "ndcg@10"),
        ("R@100", "recall@100"),
        ("Judged@10", "judged@10"),
        ("ndcg_cut_10", "ndcg@10"),
        ("map_cut_1000", "map@1000"),
        ("P_10", "precision@10"),
        ("set_P", "precision"),
        ("set_F", "f1"),
        ("recip_rank", "mrr"),
        ("recall_100", "recall@100"),
        ("bpref", "bpref"),
        ("success_1", "success@1"),
        ("hit_rate@5", "success@5"),
        ("ndcg_burges@5", "ndcg@5"),
        ("rbp.95", "rbp(p=0.95)"),
        ("pre@5", "precision@5"),
    ],
)
def test_tolerant_of_case_spaces_and_defaults(typed, text):
    assert str(metric(typed)) == text


def test_a_registered_name_goes_before_an_alias():
    try:

        @register("hit")
        class Mine(NDCG):
            pass

        assert type(metric("hit@3")) is Mine
        assert type(metric("hit_rate@3")) is Success
    finally:
        METRICS.pop("hit", None)


def test_presets():
    assert str(metric("ndcg@10", like="trec_eval")) == "ndcg(ties=input,empty=zero,gain=linear)@10"
    assert str(metric("ndcg@10", like="lightgbm")) == "ndcg(ties=input,empty=one)@10"
    assert str(metric("ndcg(gain=exp2)@10", like="catboost")) == "ndcg(empty=one)@10"
    assert str(metric("ndcg_burges@10", like="ranx")) == "ndcg(ties=input,empty=zero)@10"
    assert (
        str(metric("map", like="xgboost", empty="zero"))
        == "map(ties=input,empty=zero,divide_by=reachable)"
    )
    # The same value may be given too, and what the tool leaves open.
    assert metric("map(ties=input)", like="trec_eval", empty="zero") == metric(
        "map", like="trec_eval"
    )
    assert metric(MAP(k=3), like="trec_eval", relevant=2) == MAP(3, "input", "zero", 2)


def test_options_merge_with_the_text():
    assert metric("ndcg(ties=expected)@10", empty="zero") == NDCG(
        k=10, ties="expected", empty="zero"
    )
    assert metric("ndcg", gain=[0, 1, 3]) == NDCG(gain=(0, 1, 3))
    assert metric("ndcg", gain=np.array([0, 1, 3])) == NDCG(gain=(0, 1, 3))
    assert metric("ndcg", k=np.int64(3)) == NDCG(k=3)
    assert metric("err", max_label=2.0) == ERR(max_label=2)


def test_a_metric_is_accepted_for_its_name():
    m = NDCG(k=10)
    assert metric(m) is m
    assert metric(m, ties="best") == NDCG(k=10, ties="best")
    assert metric(m, k=None) == NDCG()


def test_attributes():
    assert [metric(name).name for name in METRICS] == list(METRICS)
    assert [name for name in METRICS if not metric(name).higher_is_better] == [
        "lambdarank-metric",
        "arp",
    ]
    assert metric("ndcg@7").k == 7
    assert metric("ndcg").k is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric("ndcg").k = 3  # type: ignore[misc]
    assert NDCG() != DCG()


TIES = "(known: best, expected, input, worst)"
NDCG_OPTIONS = "(known: discount, empty, gain, k, ties)"
NAMES = (
    "(known: arp, auc, bpref, dcg, dcg-rr, err, f1, judged, lambdarank-metric, map, mrr, ndcg, precision, r-precision, "
    "rbp, recall, success)"
)
TOOLS = "(known: catboost, lightgbm, ranx, sklearn, trec_eval, xgboost)"
TREC = "together with like='trec_eval', which means"
CUT = "expected a whole number of at least 1, or None for the full list"
FORM = "expected a name such as 'ndcg', 'ndcg@10' or 'ndcg(ties=expected)@10'"


@pytest.mark.parametrize(
    ("typed", "options", "sentence"),
    [
        ("ndgc@10", {}, f"unknown metric 'ndgc'; did you mean 'ndcg'? {NAMES}"),
        ("zzz", {}, f"unknown metric 'zzz' {NAMES}"),
        (
            "lambdarank",
            {},
            f"unknown metric 'lambdarank'; did you mean 'lambdarank-metric'? {NAMES}",
        ),
        (
            "ndcg(tie=best)",
            {},
            f"unknown parameter of the metric ndcg: 'tie'; did you mean 'ties'? {NDCG_OPTIONS}",
        ),
        (
            "ndcg",
            {"tie": "best"},
            f"unknown parameter of the metric ndcg: 'tie'; did you mean 'ties'? {NDCG_OPTIONS}",
        ),
        (
            NDCG(),
            {"tie": "best"},
            f"unknown parameter of the metric ndcg: 'tie'; did you mean 'ties'? {NDCG_OPTIONS}",
        ),
        (
            "mrr",
            {"gain": "linear"},
            "unknown parameter of the metric mrr: 'gain' (known: empty, k, relevant, ties)",
        ),
        ("ndcg(ties=wurst)", {}, f"unknown ties 'wurst'; did you mean 'worst'? {TIES}"),
        ("ndcg", {"ties": "average"}, f"unknown ties 'average' {TIES}"),
        ("ndcg", {"ties": None}, f"unknown ties 'None' {TIES}"),
        ("ndcg", {"empty": "nan"}, "unknown empty 'nan' (known: one, skip, zero)"),
        (
            "ndcg(empty=ones)",
            {},
            "unknown empty 'ones'; did you mean 'one'? (known: one, skip, zero)",
        ),
        (
            "ndcg",
            {"gain": "lin"},
            "unknown gain 'lin'; did you mean 'linear'? (known: exp2, linear)",
        ),
        (
            "ndcg",
            {"discount": "log"},
            "unknown discount 'log'; did you mean 'log2'? (known: log2, reciprocal)",
        ),
        ("ndcg", {"k": 0}, f"k: found 0; {CUT}"),
        ("ndcg", {"k": -1}, f"k: found -1; {CUT}"),
        ("ndcg", {"k": 1.5}, f"k: found 1.5; {CUT}"),
        ("ndcg", {"k": True}, f"k: found True; {CUT}"),
        ("ndcg", {"k": "ten"}, f"k: found 'ten'; {CUT}"),
        ("ndcg@0", {}, f"k: found 0; {CUT}"),
        ("ndcg@-1", {}, f"k: found -1; {CUT}"),
        ("ndcg@abc", {}, f"k: found 'abc'; {CUT}"),
        ("ndcg@1.5", {}, f"k: found 1.5; {CUT}"),
        ("ndcg@", {}, f"k: found ''; {CUT}"),
        ("ndcg@5@6", {}, f"k: found '5@6'; {CUT}"),
        ("ndcg@10", {"k": 5}, "k: given twice, as 10 and 5; expected one value"),
        ("ndcg@10", {"k": 10}, "k: given twice, as 10 and 10; expected one value"),
        ("ndcg(k=3)@10", {}, "k: given twice, as 3 and 10; expected one value"),
        ("ndcg(k=10)@10", {}, "k: given twice, as 10 and 10; expected one value"),
        ("ndcg@10", {"k": None}, "k: given twice, as 10 and none; expected one value"),
        (
            "ndcg(ties=best)",
            {"ties": "worst"},
            "ties: given twice, as best and worst; expected one value",
        ),
        (
            "ndcg(ties=best,ties=worst)",
            {},
            "ties: given twice, as best and worst; expected one value",
        ),
        (
            "ndcg(gain=0/1)",
            {"gain": (0, 2)},
            "gain: given twice, as 0/1 and 0/2; expected one value",
        ),
        (
            "ndcg(expected)@10",
            {},
            "metric 'ndcg(expected)@10': found the option 'expected'; expected name=value",
        ),
        ("ndcg(ties=)", {}, "metric 'ndcg(ties=)': found the option 'ties='; expected name=value"),
        ("ndcg(ties=best", {}, f"metric: found 'ndcg(ties=best'; {FORM}"),
        ("", {}, f"metric: found ''; {FORM}"),
        ("99", {}, f"unknown metric '99' {NAMES}"),
        (10, {}, f"metric: found 10; {FORM}"),
        ("mrr", {"relevant": 0}, "relevant: found 0; expected a number above 0"),
        ("mrr(relevant=-1)", {}, "relevant: found -1; expected a number above 0"),
        ("mrr", {"relevant": "yes"}, "relevant: found 'yes'; expected a number above 0"),
        ("mrr", {"relevant": float("nan")}, "relevant: found nan; expected a number above 0"),
        ("err", {"max_label": 0}, "max_label: found 0; expected a number above 0 and at most 1000"),
        (
            "err(max_label=none)",
            {},
            "max_label: found None; expected a number above 0 and at most 1000",
        ),
        (
            "err",
            {"max_label": 2000},
            "max_label: found 2000; expected a number above 0 and at most 1000",
        ),
        ("ndcg", {"gain": 3}, "gain: found 3; expected 'exp2', 'linear' or a table of numbers"),
        ("ndcg(gain=0/x)", {}, "unknown gain '0/x' (known: exp2, linear)"),
        ("ndcg", {"gain": ()}, "gain: found an empty table; expected at least one number"),
        (
            "ndcg",
            {"gain": (0, -1)},
            "gain: entry 1 of the table is -1; expected a finite number of at least 0",
        ),
        (
            "ndcg",
            {"gain": (0, float("inf"))},
            "gain: entry 1 of the table is inf; expected a finite number of at least 0",
        ),
        (
            "ndcg",
            {"gain": (0, 3, 1)},
            "gain: entry 2 of the table is 1, below entry 1 (3); expected gains that never fall as the label rises",
        ),
        (
            "dcg",
            {"discount": (1, 2)},
            "discount: entry 1 of the table is 2, above entry 0 (1); expected discounts that never rise with the rank",
        ),
        (
            "dcg",
            {"discount": (0, 0)},
            "discount: entry 0 of the table is 0; expected the first rank to be worth something",
        ),
        ("recip_rnk", {}, f"unknown metric 'recip_rnk'; did you mean 'recip_rank'? {NAMES}"),
        ("ndgc_cut_10", {}, f"unknown metric 'ndgc'; did you mean 'ndcg'? {NAMES}"),
        (
            "ndcg@10",
            {"like": "trec"},
            f"unknown like 'trec'; did you mean 'trec_eval'? {TOOLS}",
        ),
        (
            "map",
            {"like": "trec_eval", "ties": "best"},
            f"ties: found best {TREC} ties=input; expected one of the two",
        ),
        (
            "map(ties=worst)",
            {"like": "trec_eval"},
            f"ties: found worst {TREC} ties=input; expected one of the two",
        ),
        (
            MAP(empty="one"),
            {"like": "trec_eval"},
            f"empty: found one {TREC} empty=zero; expected one of the two",
        ),
        (
            "ndcg",
            {"like": "trec_eval", "gain": (0, 1)},
            f"gain: found 0/1 {TREC} gain=linear; expected one of the two",
        ),
        (
            "err",
            {"like": "lightgbm"},
            "like: found 'lightgbm' for err; expected one of its metrics here: map, ndcg",
        ),
        ("bpref@10", {}, "k: found 10; expected None, bpref has no cutoff"),
        ("auc", {"k": 5}, "k: found 5; expected None, auc has no cutoff"),
        ("rbp", {"p": 1}, "p: found 1; expected a number above 0 and at most 0.9999"),
        ("rbp", {"graded": "yes"}, "graded: found 'yes'; expected true or false"),
        ("map(divide_by=k)", {}, "unknown divide_by 'k' (known: reachable, relevant)"),
        ("precision(divide_by=all)", {}, "unknown divide_by 'all' (known: k, reachable)"),
        (
            "dcg",
            {"discount": 1},
            "discount: found 1; expected 'log2', 'reciprocal' or a table of numbers",
        ),
    ],
)
def test_refused_with_one_sentence(typed, options, sentence):
    with pytest.raises(OptionError) as caught:
        metric(typed, **options)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("cls", METRICS.values())
def test_every_metric_documents_itself(cls):
    text = inspect.getdoc(cls)  # without the margin, which Python 3.13 removes itself
    assert ">>>" in text
    assert "Args:" in text
    assert "Empty:" in text
    for field in dataclasses.fields(cls):
        assert f"    {field.name}: " in text, field.name
