"""What other tools call the metrics, and the options that give the numbers those tools print.

The tests in ``tests/metrics/agreement`` run the tools themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tautrank.arguments import choice
from tautrank.errors import OptionError
from tautrank.names import write_value

Options = Mapping[str, Any]

# How names are written elsewhere; other words for a name alone are the aliases in its `register`.
_SPELLINGS = (
    (re.compile(r"([a-z-]+)(?:_cut)?_(\d+)"), r"\1@\2"),  # trec_eval: ndcg_cut_10, P_10
    (re.compile(r"(n?dcg)_burges(@.*)?"), r"\1(gain=exp2)\2"),  # ranx
    (re.compile(r"rbp\.(\d+)(@.*)?"), r"rbp(p=0.\1)\2"),  # ranx: rbp.95
)


def respelled(text: str) -> str:
    """Return the name of a metric in the grammar of this library where another tool writes it
    differently.

    Args:
        text: what was typed, in lower case.

    >>> [respelled(text) for text in ("ndcg_cut_10", "p_5", "ndcg_burges@3", "rbp.95", "map@5")]
    ['ndcg@10', 'p@5', 'ndcg(gain=exp2)@3', 'rbp(p=0.95)', 'map@5']
    """
    for form, ours in _SPELLINGS:
        if form.fullmatch(text.strip()):
            return form.sub(ours, text.strip())
    return text


class Tool(NamedTuple):
    """How one tool counts.

    Args:
        ties: its order of tied documents, where the metric does not say otherwise.
        always: by metric, the options that it leaves no choice about. A metric that is not here it
            does not have, or computes in a way that no option here gives.
        usual: by metric, options that are its defaults, and that one may set otherwise there too.
    """

    ties: str
    always: Mapping[str, Options]
    usual: Mapping[str, Options]


_ZERO: Options = {"empty": "zero"}
_ONE: Options = {"empty": "one"}
_REACHABLE: Options = {"divide_by": "reachable"}
_LINEAR: Options = {"gain": "linear"}
_TEXTBOOK: Options = {**_ZERO, **_LINEAR, "discount": "log2"}
_OF_RUNS = dict.fromkeys(
    ("map", "mrr", "precision", "recall", "f1", "success", "r-precision", "bpref"), _ZERO
)

TOOLS: dict[str, Tool] = {
    # Ties by descending document name: the rows of a run are brought into that order, see
    # `JudgedRun.for_trec_eval`.
    "trec_eval": Tool("input", {**_OF_RUNS, "ndcg": _TEXTBOOK}, {}),
    "sklearn": Tool(
        "expected", {"ndcg": _TEXTBOOK, "dcg": _TEXTBOOK, "auc": {"empty": "skip"}}, {}
    ),
    "ranx": Tool(
        "input",
        {**_OF_RUNS, "ndcg": _ZERO, "dcg": _ZERO, "rbp": {**_ZERO, "graded": True}},
        {"ndcg": _LINEAR, "dcg": _LINEAR},
    ),
    "lightgbm": Tool("input", {"ndcg": _ONE, "map": {**_ONE, **_REACHABLE}}, {}),
    "xgboost": Tool(
        "input",
        {"ndcg": {}, "map": _REACHABLE, "precision": {**_ZERO, **_REACHABLE}},
        # A name that ends in "-" there means 0.
        {"ndcg": _ONE, "map": _ONE},
    ),
    "catboost": Tool(
        "worst",
        {
            **dict.fromkeys(("ndcg", "recall"), _ONE),
            **dict.fromkeys(("dcg", "mrr"), _ZERO),
            "map": {**_ZERO, **_REACHABLE},
            "precision": {**_ZERO, **_REACHABLE},
            "auc": {"ties": "expected", **_ZERO},  # QueryAUC
        },
        {"ndcg": _LINEAR, "dcg": _LINEAR},
    ),
}
"""Every tool that ``like=`` knows."""


def preset(like: str, name: str, options: Options) -> dict[str, Any]:
    """Return the options, besides those given, that make a metric count as another tool does.

    Args:
        like: one of `TOOLS`.
        name: name of the metric.
        options: the options that were given; one that contradicts the tool is an error.

    >>> preset("lightgbm", "map", {"k": 5})
    {'ties': 'input', 'empty': 'one', 'divide_by': 'reachable'}
    >>> preset("trec_eval", "map", {"ties": "best"})
    Traceback (most recent call last):
    tautrank.errors.OptionError: ties: found best together with like='trec_eval', which means
    ties=input; expected one of the two
    >>> preset("lightgbm", "err", {})
    Traceback (most recent call last):
    tautrank.errors.OptionError: like: found 'lightgbm' for err; expected one of its metrics
    here: map, ndcg
    """
    tool = TOOLS[choice("like", like, tuple(TOOLS))]
    if name not in tool.always:
        expected = ", ".join(sorted(tool.always))
        raise OptionError(
            f"like: found '{like}' for {name}; expected one of its metrics here: {expected}"
        )
    # `always`: options without which the metric would not be that of the tool. `usual`: the tool's
    # defaults, which a user may change.
    always = {"ties": tool.ties, **tool.always[name]}
    for option, value in always.items():
        if option in options and options[option] != value:
            rule = f"like='{like}', which means {option}={write_value(value)}"
            raise OptionError(
                f"{option}: found {write_value(options[option])} together with {rule};"
                " expected one of the two"
            )
    usual = tool.usual.get(name, {})
    all_options = {**usual, **always}
    return {option: value for option, value in all_options.items() if option not in options}
