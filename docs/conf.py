"""How `make docs` turns the Markdown of this folder and the docstrings into a site that needs no
network.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

from tautrank import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

project = "tautrank"
copyright = "the authors of tautrank"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["pictures"]
myst_enable_extensions = ["dollarmath"]
# A heading is linked to by its words, as on GitHub.
myst_heading_anchors = 3

html_theme = "furo"
html_title = "tautrank"
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
# Quotation marks and dots, not dashes: `--` is how an option begins.
smartquotes_action = "qe"
pygments_style, pygments_dark_style = "friendly", "monokai"

# A name in single backticks is a link where there is such a name, and code where there is none.
default_role = "py:obj"
add_module_names = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "Gain": "Gain", "Discount": "Discount"}
# What scikit-learn adds to every estimator is described there.
autodoc_default_options = {
    "exclude-members": "set_fit_request,set_score_request,set_predict_request"
}
# What the pages describe, and `make docs` does not install.
autodoc_mock_imports = ["torch"]
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# Kept here rather than in index.md, where a reader of the Markdown would meet it as a block of
# code.
NAVIGATION = {
    "Start": ["getting-started", "from-lightgbm", "which-loss", "errors", "performance"],
    "Rank": [
        "data",
        "metrics",
        "losses",
        "committees",
        "add-a-loss",
        "networks",
        "large-data",
        "langevin",
        "list-features",
        "tuning",
        "explain",
        "export",
        "serving",
        "scikit-learn",
        "recipes",
    ],
    "Compare": ["comparing", "significance", "studies", "simulate", "theory"],
    "Results": [
        "results/losses",
        "results/committees",
        "results/engines",
        "results/smoothed",
        "results/early-stopping",
        "results/significance",
        "results/theory",
        "results/clicks",
        "results/studies",
        "results/speed",
        "results/gpu",
    ],
    "Reference": [
        "reference/index",
        "reference/command-line",
        "reference/data",
        "reference/metrics",
        "reference/losses",
        "reference/theory",
        "reference/checks",
        "reference/simulate",
        "reference/studies",
    ],
    "Project": ["contributing", "changelog"],
}


def adapt_source(app: Sphinx, page: str, source: list[str]) -> None:
    """Give the first page the tree of all others, the studies' page theirs, and that of commands
    their help.

    Links to what lies beside docs/ lead to its page here.
    """
    source[0] = (
        source[0]
        .replace("](../CONTRIBUTING.md", "](contributing.md")
        .replace("](../CHANGELOG.md", "](changelog.md")
    )
    if page == "results/studies":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\nstudies/*\n```\n"
    if page == "reference/command-line":
        source[0] += "".join(
            f"\n## {name}\n\n```text\n{text}\n```\n" for name, text in command_help()
        )
    if page != "index":
        return
    for caption, pages in NAVIGATION.items():
        source[0] += (
            "\n```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(pages) + "\n```\n"
        )


def command_help() -> Iterator[tuple[str, str]]:
    """What every command prints with ``--help``."""
    import typer

    from tautrank.commands.main import app as commands

    waiting: list[tuple[str, Any]] = [("tautrank", typer.main.get_command(commands))]
    while waiting:
        name, command = waiting.pop(0)
        context = command.make_context(name, [], resilient_parsing=True)
        context.terminal_width = context.max_content_width = 82
        yield name, command.get_help(context)
        below = command.list_commands(context) if hasattr(command, "list_commands") else ()
        waiting[:0] = [(f"{name} {one}", command.get_command(context, one)) for one in below]


def set_displays_apart(
    app: Sphinx, what: str, name: str, documented: object, options: object, lines: list[str]
) -> None:
    """Show a formula on indented lines of its own as it is typed: reStructuredText would take it
    for a quotation.
    """
    text = "\n".join(lines)
    lines[:] = re.sub(r"(?m)^(\S.*)\n\n(?=    +\S)", r"\1\n\n::\n\n", text).split("\n")


def write_mathml(translator: Any, node: nodes.math | nodes.math_block) -> None:
    """MathML, which browsers draw without a script; a formula that cannot be read stops a strict
    build.
    """
    display = isinstance(node, nodes.math_block)
    translator.body.append(tex2mathml(node.astext(), as_block=display))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the three."""
    app.connect("source-read", adapt_source)
    # Before Napoleon, which takes docstrings apart at 500.
    app.connect("autodoc-process-docstring", set_displays_apart, priority=400)
    app.add_html_math_renderer("mathml", (write_mathml, None), (write_mathml, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
