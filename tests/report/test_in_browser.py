"""Pages in a browser: every figure is drawn, tables sort, and phones, dark screens and paper get
what suits them.
"""

from __future__ import annotations

import re
import time
from itertools import combinations

import pytest

from tautrank.report import page as pages
from tautrank.report.page import Page, TableSection
from tautrank.tables import Table
from tests.report.examples import DESKTOP, NASTY, PHONE, SYSTEMS, page_of_everything
from tests.report.test_figures import DARK, LIGHT

STUDIES = ("xe-table1", "xe-figure3-labels", "directness-losses")
DRAWN = {
    "everything": 4,
    "xe-table1": 4,
    "xe-figure3-labels": 2,
    "directness-losses": 1,
    "static": 0,
}
CURVES = "#section-4"


@pytest.fixture(scope="module")
def addresses(ran, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    wide = Table.of([f"column {i}" for i in range(9)], [[1.5] * 9])
    pages = {
        "everything": page_of_everything(),
        "static": Page("t", [TableSection("T", wide)], interactive=False),
    }
    pages |= {name: ran(name).page() for name in STUDIES}
    for name, page in pages.items():
        page.to_html(folder / f"{name}.html")
    return {name: (folder / f"{name}.html").as_uri() for name in pages}


@pytest.fixture(scope="module")
def opened(browser, addresses):
    """Open a page; with it comes what it logged and what it asked for."""
    contexts = []

    def open_page(name, **options):
        context = browser.new_context(**DESKTOP | {"color_scheme": "light"} | options)
        contexts.append(context)
        page, complaints = context.new_page(), []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                complaints.append(request.url) if request.url != addresses[name] else None
            ),
        )
        page.goto(addresses[name])
        return page, complaints

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def visit(opened):
    """Open a page for one test; at the end, it logged no error and asked for nothing but itself."""
    visits = []

    def open_page(name="everything", **options):
        visits.append(opened(name, **options))
        return visits[-1][0]

    yield open_page
    for page, complaints in visits:
        page.close()
        assert complaints == []


def wait_until(condition) -> None:
    """Ask again until it holds; the page's own rules forbid the browser to do the asking."""
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("waited ten seconds in vain")


def drawn_width(page) -> float:
    """The width of the first figure; 0 while it is drawn again."""
    found = (
        f"document.querySelector('{CURVES}-plot svg.main-svg')?.getBoundingClientRect().width ?? 0"
    )
    return page.evaluate(found)


def brightness(page) -> int:
    """The brightness of the page's background, 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return max(int(part) for part in re.findall(r"\d+", colour)[:3])


def rgb(colour: str) -> str:
    return "rgb({}, {}, {})".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("everything", DESKTOP),
        ("xe-table1", DESKTOP),
        *((name, PHONE | {"color_scheme": "dark"}) for name in DRAWN),
    ],
    ids=["everything", "xe-table1", *(f"{name} on a phone in the dark" for name in DRAWN)],
)
def test_figures_are_drawn_and_everything_has_room(visit, name, options):
    page = visit(name, **options)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    width = options["viewport"]["width"]
    assert (
        page.evaluate("document.documentElement.scrollWidth")
        <= width
        == page.evaluate("window.innerWidth")
    )
    assert page.evaluate("window.hacked") is None
    drawings = page.query_selector_all("[data-figure]")
    assert len(drawings) == DRAWN[name]
    for drawing in drawings:
        assert drawing.query_selector("svg.main-svg").bounding_box()["width"] > 300
        assert any(
            shape.bounding_box()["width"] > 0 for shape in drawing.query_selector_all(".trace path")
        )
    labels = page.evaluate(
        """() => [...document.querySelectorAll('[data-figure]')].map((drawing) => {
          const words = '.xtick text, .ytick text, .xtitle, .ytitle, .annotation-text';
          return [drawing, ...drawing.querySelectorAll(words)].map((e) => {
            const { left, right, top, bottom } = e.getBoundingClientRect();
            return [left, right, top, bottom, e === drawing ? '' : e.textContent];
          });
        })"""
    )
    for outer, *found in labels:
        assert len(found) > 4
        for left, right, _, bottom, text in found:  # none is cut
            assert left >= outer[0] - 1, text
            assert right <= outer[1] + 1, text
            assert bottom <= outer[3] + 1, text
        for a, b in combinations(found, 2):  # none lies on another
            across, along = min(a[1], b[1]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[2], b[2])
            assert across < 2 or along < 2, (a[4], b[4])


def test_a_wide_table_scrolls_in_its_box(visit):
    box = visit("static", **PHONE).locator(".scroll")
    assert box.evaluate("(e) => { e.scrollLeft = 50; return e.scrollLeft; }") == 50


def test_names_appear_as_text_in_legends_panels_and_hover(visit):
    page = visit()
    legend = page.locator(f"{CURVES}-legend button").all_inner_texts()
    assert [text.strip() for text in legend] == list(SYSTEMS)
    panels = page.locator("#section-5-1-plot .annotation-text").all_text_contents()
    assert panels[0] == NASTY[:33] + "…"
    assert page.query_selector("main a[href^='http']") is None
    plot = "#section-5-2-plot"
    page.locator(plot).scroll_into_view_if_needed()
    point = (
        page.locator(f"{plot} .scatterlayer .trace")
        .first.locator(".points path")
        .nth(2)
        .bounding_box()
    )
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    wait_until(lambda: page.locator(f"{plot} .hoverlayer .name").count() == 1)
    assert page.locator(f"{plot} .hoverlayer .name").text_content().startswith(NASTY[:12])


def test_tables_sort_by_mouse_and_keyboard_and_keep_missing_values_last(visit):
    page = visit()

    def press(number):
        page.locator("#section-2 th button").nth(number - 1).click()

    def column(number):
        cells = f"#section-2 tbody tr td:nth-child({number})"
        return page.eval_on_selector_all(cells, "all => all.map((e) => e.dataset.key ?? null)")

    press(2)
    assert column(2) == ["0.3", "0.2", "0.1", None]  # the highest first
    assert page.locator("#section-2 th[aria-sort=descending]").inner_text().startswith("mean")
    press(2)
    assert column(2) == ["0.1", "0.2", "0.3", None]
    press(3)
    assert column(3) == ["2", "9", "10", None]  # as numbers
    assert page.locator("#section-2 th[aria-sort]").count() == 1
    page.locator("#section-2 th button").first.focus()
    page.keyboard.press("Enter")
    names = page.evaluate(f"{list(SYSTEMS)}.sort((a, b) => a.localeCompare(b))")
    assert column(1) == names
    page.keyboard.press("Space")
    assert column(1) == names[::-1]


def test_dark_mode_is_dark_figures_included(visit):
    page = visit(color_scheme="dark")

    def colours():
        return page.evaluate(
            f"""() => [
              getComputedStyle(document.querySelector('{CURVES}-plot .xtick text')).fill,
              getComputedStyle(document.querySelectorAll('{CURVES}-plot .scatterlayer .js-line')[4]).stroke,
              document.querySelector('{CURVES}-legend svg line').getAttribute('stroke'),
            ]"""
        )

    assert brightness(page) < 60
    assert colours() == [rgb(DARK["ink"]), rgb(pages.DARK_COLOURS[0]), pages.DARK_COLOURS[0]]
    page.emulate_media(color_scheme="light")
    wait_until(lambda: colours()[0] == rgb(LIGHT["ink"]))
    assert brightness(page) == 255
    assert colours()[1:] == [rgb(pages.LIGHT_COLOURS[0]), pages.LIGHT_COLOURS[0]]


def test_legend_hides_and_shows_a_system(visit):
    page = visit()
    button = page.locator(f"{CURVES}-legend button").nth(2)
    lines = page.locator(f"{CURVES}-plot .scatterlayer .js-line")
    before = lines.count()
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert lines.count() < before
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert lines.count() == before


def test_figures_follow_the_window(visit):
    page = visit()
    page.set_viewport_size({"width": 600, "height": 900})
    wait_until(lambda: drawn_width(page) < 600)
    assert page.evaluate("document.documentElement.scrollWidth") <= 600


def test_print_has_light_static_figures_and_no_controls(visit):
    page = visit(color_scheme="dark")
    page.emulate_media(media="print")
    wait_until(lambda: drawn_width(page) == 680)
    assert brightness(page) == 255
    ink = page.evaluate(
        f"getComputedStyle(document.querySelector('{CURVES}-plot .xtick text')).fill"
    )
    assert ink == rgb(LIGHT["ink"])
    for control in (
        "nav",
        ".forms",
        ".modebar-container",
        "#section-3",
    ):  # the last one was left folded
        assert not any(element.is_visible() for element in page.query_selector_all(control)), (
            control
        )
    assert page.locator("#section-2 td").first.is_visible()
    drags = "all => all.filter((e) => getComputedStyle(e).pointerEvents !== 'none').length"
    assert page.eval_on_selector_all(".drawing .drag", drags) == 0
    page.emulate_media(media="screen")
    wait_until(lambda: drawn_width(page) > 680)
    assert brightness(page) < 60


def test_without_scripts_the_table_is_there_and_figures_say_why_they_are_not(visit):
    page = visit(java_script_enabled=False)
    assert page.locator("#section-2 td").first.is_visible()
    assert page.locator("noscript p").count() == 4
    assert page.locator("noscript p").first.bounding_box()["height"] > 10
