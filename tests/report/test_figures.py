"""Figures: what curves, bars and groups of queries draw, and whether every reader can tell systems
apart.
"""

from __future__ import annotations

import math
import re
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tautrank.errors import DataError, OptionError
from tautrank.report import gain_figures, page
from tautrank.report.figures import Curve, curve_figure, validation_curves
from tautrank.significance.paired import corrected_resampled_t_test

TITLES = {"x_title": "x", "y_title": "y"}


def test_validation_curves_are_means_and_deviations_over_trainings():
    rng = np.random.default_rng(0)
    histories = {
        "a": [rng.random(7), rng.random(5), rng.random(9)],
        "b": [rng.random(4)],
        "c": [],
        "one": [[0.5]],
    }
    several, one = validation_curves(histories)
    values = np.array([history[:5] for history in histories["a"]])
    assert several.x.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(several.mean, values.mean(axis=0))
    np.testing.assert_allclose(several.high - several.mean, values.std(axis=0, ddof=1))
    np.testing.assert_allclose(several.mean - several.low, values.std(axis=0, ddof=1))
    assert (one.name, one.low) == ("b", None)


def test_curves_draw_what_they_are_given():
    curve = Curve("a", [1, 2, 3], [0.3, math.nan, 0.1], [0.2, math.nan, 0.0], [0.4, math.nan, 0.2])
    band, line = curve_figure([curve], **TITLES).data
    assert line.y == (0.3, None, 0.1)
    assert (band.x, band.y) == ((1.0, 3.0, 3.0, 1.0), (0.4, 0.2, 0.0, 0.2))


def test_wrong_figures_are_refused():
    many = Curve("a", np.zeros(50_001), np.zeros(50_001))
    for make, kind, sentence in (
        (
            lambda: Curve("a", [1, 2], [1]),
            DataError,
            "mean of 'a': found length 1; expected 2, one per place",
        ),
        (
            lambda: Curve("a", [1], [1], low=[0]),
            OptionError,
            "low, high: found one of them for 'a'",
        ),
        (
            lambda: Curve("a", ["x"], [1]),
            DataError,
            "x of 'a': found values of type <U1; expected numbers",
        ),
        (lambda: Curve("a", [[1]], [1]), DataError, "x of 'a': found an array of shape (1, 1)"),
        (
            lambda: curve_figure([many], **TITLES, mode="markers"),
            DataError,
            "curves: found 50,001 points; expected",
        ),
    ):
        with pytest.raises(kind) as caught:
            make()
        assert str(caught.value).startswith(sentence)


# ---- Gains of queries


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60), st.integers(1, 20))
def test_bars_are_sorted_and_keep_the_mean(values, most):
    bars = gain_figures.sorted_bars(values, most)
    assert bars.size == min(most, len(values))
    assert (np.diff(bars) >= -1e-12).all()
    counts = [part.size for part in np.array_split(np.arange(len(values)), bars.size)]
    np.testing.assert_allclose(np.average(bars, weights=counts), np.mean(values), atol=1e-12)
    assert max(counts) - min(counts) <= 1


@given(
    st.lists(
        st.one_of(st.just(math.nan), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1)),
        max_size=40,
    ),
    st.integers(1, 6),
    st.booleans(),
)
def test_difficulty_groups_divide_the_queries_and_keep_equals_together(values, groups, higher):
    baseline = np.array([*values, 0.5], float)
    found = gain_figures.difficulty_groups(baseline, groups, higher_is_better=higher)
    assert len(found) <= groups
    assert sorted(np.concatenate(found)) == np.flatnonzero(~np.isnan(baseline)).tolist()
    for easier, harder in zip(found[1:], found, strict=False):
        low, high = (harder, easier) if higher else (easier, harder)
        assert baseline[low].max() < baseline[high].min()
    shuffled = np.random.default_rng(groups).permutation(100)  # distinct values: even groups
    assert {group.size for group in gain_figures.difficulty_groups(shuffled)} == {20}


@pytest.fixture(scope="module")
def found():
    """Gains of a cost over a baseline: two systems, 90 queries, one of them skipped."""
    rng = np.random.default_rng(3)
    skipped = np.where(np.arange(90) == 7, math.nan, 0.0)
    gained = {name: rng.normal(mean, 0.1, 90) + skipped for name, mean in (("a", 0.1), ("b", 0.0))}
    return gain_figures.QueryGains(
        "arp", "base", rng.random(90) + skipped, gained, higher_is_better=False
    )


def drawn(found):
    return [section.figure.data for section in gain_figures.gain_sections(found)]


def test_bars_and_points_are_the_gains_of_the_queries(found):
    bars, points = drawn(found)
    groups = gain_figures.difficulty_groups(found.values, higher_is_better=False)
    assert found.values[groups[0]].min() > found.values[groups[-1]].max()  # of a cost, high is hard
    for bar, point, gained in zip(bars, points, found.gains.values(), strict=True):
        np.testing.assert_allclose(bar.y, np.sort(gained[~np.isnan(gained)]))
        np.testing.assert_allclose(point.y, [gained[group].mean() for group in groups])
        for group, up, down in zip(
            groups, point.error_y.array, point.error_y.arrayminus, strict=True
        ):
            error = gained[group].std(ddof=1) / math.sqrt(group.size)
            assert 0.5 * 1.96 * error < min(up, down) <= max(up, down) < 1.5 * 1.96 * error


def test_intervals_over_trials_count_what_trials_share(found):
    trial_of = np.repeat([0, 1, 3], 30)
    _, points = drawn(
        gain_figures.QueryGains("arp", "base", found.values, found.gains, False, trial_of, 0.5)
    )
    groups = gain_figures.difficulty_groups(found.values, higher_is_better=False)
    for i, group in enumerate(groups):
        by_trial = [found.gains["a"][group[trial_of[group] == t]].mean() for t in (0, 1, 3)]
        half = stats.t.ppf(0.975, 2) * math.sqrt((1 / 3 + 0.5) * np.var(by_trial, ddof=1))
        assert points[0].error_y.array[i] == pytest.approx(half)
        assert points[0].error_y.arrayminus[i] == pytest.approx(half)


def test_one_trial_has_no_intervals(found):
    once = gain_figures.QueryGains(
        "arp", "base", found.values, found.gains, False, np.zeros(90, int), 0.5
    )
    _, section = gain_figures.gain_sections(once)
    assert set(section.figure.data[0].error_y.array) == {None}
    assert "interval" not in section.caption


def test_fewer_than_ten_queries_are_not_drawn():
    assert drawn(gain_figures.QueryGains("ndcg", "base", np.ones(9), {"a": np.ones(9)})) == []


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8, unique=True), st.floats(0.01, 1))
def test_interval_ends_where_the_corrected_test_begins_to_reject(values, overlap):
    d = np.array(values)
    if np.ptp(d) < 1e-3:
        return
    for end in gain_figures.interval_over_trials(d, overlap):
        assert corrected_resampled_t_test(
            d - end, n_train=1.0, n_test=overlap
        ).p_value == pytest.approx(0.05)


# ---- Colours

# Machado, Oliveira and Fernandes, A physiologically-based model for simulation of color vision
# deficiency, 2009.
EYES = {
    "normal": np.eye(3),
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
TO_CONES.append([0.0883024619, 0.2817188376, 0.6299787005])
TO_OKLAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
]
TO_OKLAB.append([0.0259040371, 0.7827717662, -0.8086757660])


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("colours", [page.LIGHT_COLOURS, page.DARK_COLOURS], ids=["light", "dark"])
def test_systems_are_told_apart_by_every_kind_of_eyes(colours, eyes):
    """Distances in OKLab; the closest two of the Okabe-Ito palette are 0.076 apart for red-blind
    readers.
    """
    seen = np.clip([linear(colour) @ np.transpose(EYES[eyes]) for colour in colours], 0, 1)
    oklab = np.cbrt(seen @ np.transpose(TO_CONES)) @ np.transpose(TO_OKLAB)
    distances = np.linalg.norm(oklab[:, None] - oklab[None], axis=-1)[
        np.triu_indices(len(colours), 1)
    ]
    assert distances.min() > 0.085


CSS = files("tautrank.report").joinpath("page.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--(\w+): (#\w+);", block)) for block in CSS.split("@media")[:2])


def test_everything_stands_out_from_its_background():
    for theme, colours in ((LIGHT, page.LIGHT_COLOURS), (DARK, page.DARK_COLOURS)):
        assert min(contrast(colour, theme["paper"]) for colour in colours) > 3
        for background in ("paper", "shade"):
            assert (
                min(contrast(theme[text], theme[background]) for text in ("ink", "quiet", "accent"))
                > 4.5
            )


def test_styles_differ_beyond_the_colours():
    styles = page.system_styles([str(i) for i in range(40)])
    assert len({(style.colour, style.dash) for style in styles.values()}) == 40
    assert len({(style.colour, style.symbol) for style in styles.values()}) == 40
