"""How metrics are typed, printed and refused: exact text."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from tautrank.errors import OptionError
from tautrank.metrics import ARP, DCG, DCGRR, ERR, MAP, METRICS, MRR, NDCG, LambdaRankMetric, Precision, Recall, metric

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
        (ARP(), "arp"),
        (LambdaRankMetric(k=5), "lambdarank-metric@5"),
        (DCGRR(gain="exp2"), "dcg-rr(gain=exp2)"),
        (DCGRR(gain="linear"), "dcg-rr"),
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
        ("ndcg(k=10)@10", "ndcg@10"),
        ("ndcg(ties=worst)", "ndcg"),
        ("ndcg(gain=exp2,)", "ndcg"),
        ("mrr(relevant=none)", "mrr"),
        ("mrr(relevant=1e0)", "mrr(relevant=1)"),
        ("ndcg(gain=0/1e0/3.50)", "ndcg(gain=0/1/3.5)"),
    ],
)
def test_tolerant_of_case_spaces_and_defaults(typed, text):
    assert str(metric(typed)) == text


def test_options_merge_with_the_text():
    assert metric("ndcg(ties=expected)@10", empty="zero") == NDCG(k=10, ties="expected", empty="zero")
    assert metric("ndcg@10", k=10) == NDCG(k=10)
    assert metric("ndcg(gain=0/1/3)", gain=[0, 1, 3]) == NDCG(gain=(0, 1, 3))
    assert metric("ndcg", gain=np.array([0, 1, 3])) == NDCG(gain=(0, 1, 3))
    assert metric("ndcg", k=np.int64(3)) == NDCG(k=3)
    assert metric("err(max_label=2)", max_label=2.0) == ERR(max_label=2)


def test_a_metric_is_accepted_for_its_name():
    m = NDCG(k=10)
    assert metric(m) is m
    assert metric(m, ties="best") == NDCG(k=10, ties="best")
    assert metric(m, k=None) == NDCG()


def test_attributes():
    assert [metric(name).name for name in METRICS] == list(METRICS)
    assert [name for name in METRICS if not metric(name).higher_is_better] == ["lambdarank-metric", "arp"]
    assert metric("ndcg@7").k == 7
    assert metric("ndcg").k is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric("ndcg").k = 3  # type: ignore[misc]
    assert NDCG() != DCG()


TIES = "(known: best, expected, input, worst)"
NDCG_OPTIONS = "(known: discount, empty, gain, k, ties)"
NAMES = "(known: arp, dcg, dcg-rr, err, lambdarank-metric, map, mrr, ndcg, precision, recall)"
CUT = "expected a whole number of at least 1, or None for the full list"
FORM = "expected a name such as 'ndcg', 'ndcg@10' or 'ndcg(ties=expected)@10'"


@pytest.mark.parametrize(
    ("typed", "options", "sentence"),
    [
        ("ndgc@10", {}, f"unknown metric 'ndgc'; did you mean 'ndcg'? {NAMES}"),
        ("zzz", {}, f"unknown metric 'zzz' {NAMES}"),
        ("lambdarank", {}, f"unknown metric 'lambdarank'; did you mean 'lambdarank-metric'? {NAMES}"),
        ("ndcg(tie=best)", {}, f"unknown parameter of the metric ndcg: 'tie'; did you mean 'ties'? {NDCG_OPTIONS}"),
        ("ndcg", {"tie": "best"}, f"unknown parameter of the metric ndcg: 'tie'; did you mean 'ties'? {NDCG_OPTIONS}"),
        (NDCG(), {"tie": "best"}, f"unknown parameter of the metric ndcg: 'tie'; did you mean 'ties'? {NDCG_OPTIONS}"),
        ("mrr", {"gain": "linear"}, "unknown parameter of the metric mrr: 'gain' (known: empty, k, relevant, ties)"),
        ("ndcg(ties=wurst)", {}, f"unknown ties 'wurst'; did you mean 'worst'? {TIES}"),
        ("ndcg", {"ties": "average"}, f"unknown ties 'average' {TIES}"),
        ("ndcg", {"ties": None}, f"unknown ties 'None' {TIES}"),
        ("ndcg", {"empty": "nan"}, "unknown empty 'nan' (known: one, skip, zero)"),
        ("ndcg(empty=ones)", {}, "unknown empty 'ones'; did you mean 'one'? (known: one, skip, zero)"),
        ("ndcg", {"gain": "lin"}, "unknown gain 'lin'; did you mean 'linear'? (known: exp2, linear)"),
        ("ndcg", {"discount": "log"}, "unknown discount 'log'; did you mean 'log2'? (known: log2, reciprocal)"),
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
        ("ndcg(k=3)@10", {}, "k: given twice, as 3 and 10; expected one value"),
        ("ndcg@10", {"k": None}, "k: given twice, as 10 and none; expected one value"),
        ("ndcg(ties=best)", {"ties": "worst"}, "ties: given twice, as best and worst; expected one value"),
        ("ndcg(ties=best,ties=worst)", {}, "ties: given twice, as best and worst; expected one value"),
        ("ndcg(gain=0/1)", {"gain": (0, 2)}, "gain: given twice, as 0/1 and 0/2; expected one value"),
        ("ndcg(expected)@10", {}, "metric 'ndcg(expected)@10': found the option 'expected'; expected name=value"),
        ("ndcg(ties=)", {}, "metric 'ndcg(ties=)': found the option 'ties='; expected name=value"),
        ("ndcg(ties=best", {}, f"metric: found 'ndcg(ties=best'; {FORM}"),
        ("", {}, f"metric: found ''; {FORM}"),
        ("10", {}, f"unknown metric '10' {NAMES}"),
        (10, {}, f"metric: found 10; {FORM}"),
        ("mrr", {"relevant": 0}, "relevant: found 0; expected a number above 0"),
        ("mrr(relevant=-1)", {}, "relevant: found -1; expected a number above 0"),
        ("mrr", {"relevant": "yes"}, "relevant: found 'yes'; expected a number above 0"),
        ("mrr", {"relevant": float("nan")}, "relevant: found nan; expected a number above 0"),
        ("err", {"max_label": 0}, "max_label: found 0; expected a number above 0 and at most 1000"),
        ("err(max_label=none)", {}, "max_label: found None; expected a number above 0 and at most 1000"),
        ("err", {"max_label": 2000}, "max_label: found 2000; expected a number above 0 and at most 1000"),
        ("ndcg", {"gain": 3}, "gain: found 3; expected 'exp2', 'linear' or a table of numbers"),
        ("ndcg(gain=0/x)", {}, "unknown gain '0/x' (known: exp2, linear)"),
        ("ndcg", {"gain": ()}, "gain: found an empty table; expected at least one number"),
        ("ndcg", {"gain": (0, -1)}, "gain: entry 1 of the table is -1; expected a finite number of at least 0"),
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
        ("dcg", {"discount": 1}, "discount: found 1; expected 'log2', 'reciprocal' or a table of numbers"),
    ],
)
def test_refused_with_one_sentence(typed, options, sentence):
    with pytest.raises(OptionError) as caught:
        metric(typed, **options)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("cls", METRICS.values())
def test_every_metric_documents_itself(cls):
    text = cls.__doc__
    assert ">>>" in text
    assert "Args:" in text
    assert "Empty:" in text
    for field in dataclasses.fields(cls):
        assert f"        {field.name}: " in text, field.name
