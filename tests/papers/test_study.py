"""What a study declares: every study can be written down, and what is misdeclared is said at
once.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tautrank.errors import DataError, OptionError
from tautrank.experiments.plan import Condition, Measurement, System
from tautrank.json_values import canonical, from_json, to_json
from tautrank.papers.catalogue import CATALOGUE
from tautrank.papers.claims import Better
from tautrank.papers.study import Recipe
from tests.study_examples import TINY


@pytest.mark.parametrize("study", [TINY, *CATALOGUE.values()], ids=lambda study: study.name)
def test_a_study_survives_being_written_down(study):
    assert from_json(json.loads(canonical(to_json(study, "plan")))) == study


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"name": "My Study"},
            "name: found 'My Study'; expected small letters, digits and hyphens",
        ),
        ({"systems": ()}, "systems: found none; expected at least one"),
        (
            {"systems": (System("mse"), System("mse"))},
            "systems: found 'mse' twice; expected different names",
        ),
        (
            {"systems": (System("mse"), System("listnt"))},
            "unknown loss 'listnt'; did you mean 'listnet'?",
        ),
        ({"metrics": ("ndcg@5", "arpp")}, "unknown metric 'arpp'"),
        ({"baseline": "ms"}, "unknown system 'ms'; did you mean 'mse'?"),
        (
            {"claims": (Better(better="mse", worse="listnet", metric="ndcg@3"),)},
            "unknown metric of a claim 'ndcg@3'",
        ),
        ({"claims": (Better(better="mse", worse="x", metric="ndcg@5"),)}, "unknown system 'x'"),
        (
            {"conditions": (Condition("a"), Condition("a"))},
            "conditions: found 'a' twice; expected different names",
        ),
        (
            {"recipes": (Recipe("a", "A", systems={"msee": {}}),)},
            "unknown system 'msee'; did you mean 'mse'?",
        ),
        ({"repeats": 0}, "repeats: found 0; expected a whole number of at least 1"),
        ({"judged": ("train",)}, "judged: found ['train']; expected 'test'"),
        ({"curves": ("test",)}, "curves: found ['test']; expected 'train' or 'valid'"),
        ({"systems": (Measurement("jensen"), System("listnet"))}, "unknown "),
    ],
)
def test_what_is_misdeclared_is_said_at_once(change, sentence):
    with pytest.raises(OptionError) as caught:
        replace(TINY, **{"claims": (), "recipes": (), "baseline": "", **change})
    assert str(caught.value).startswith(sentence)


def test_what_cannot_be_written_down_is_refused():
    with pytest.raises(OptionError, match=r"plan\.x: found <object"):
        to_json({"x": object()}, "plan")
    with pytest.raises(DataError, match="found the declaration 'Suprise'"):
        from_json({"=": "Suprise"})
