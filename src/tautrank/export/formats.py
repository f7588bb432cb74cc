"""The formats that are text, what their writers are given, and its numbers as another system has
them.

Thresholds and leaves are written such that every document goes the same way.

**Solr**'s MultipleAdditiveTreesModel reads thresholds and leaves as float32, adds 1e-6 to every
threshold, sends a document left if its value is at most that sum, and adds the leaves in float32.
Since version 9.2 it can distinguish missing values from 0.

**RankLib** reads thresholds and leaves as float32, sends a document left if its value is at most
the threshold, reads a missing value as 0, and adds the leaves in float32. Features have numbers,
from 1.

For the **plugins**, a model is the body of a ``_createmodel`` request. They read two kinds of
trees. ``model/ranklib`` tests ``value <= threshold`` and reads a missing value as 0, in every
version: this is what LightGBM does. ``model/xgboost+json`` tests ``value < threshold``; what it
does with a missing value has changed from version to version. So each tool's trees are written as
the kind that works as the tool does. OpenSearch's plugin sends missing values where each split says
since July 2026 (opensearch-learning-to-rank-base#379): with ``directions`` all trees are written
for that.

**Vespa** (``lightgbm("model.json")`` in a rank profile) reads the JSON that LightGBM dumps, but
tests ``value < threshold`` where LightGBM tests ``<=``, sends every missing value where
``default_left`` says, and requires an objective. So thresholds are the next doubles above the
model's, and ``default_left`` says where LightGBM sends missing values. Vespa computes with doubles.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tautrank.arrays import F32, F64
from tautrank.engines import FittedModel
from tautrank.engines.lightgbm import LightGBMModel
from tautrank.engines.packages import package
from tautrank.engines.trees import Tree, greatest_float32
from tautrank.errors import DataError, OptionError, TautrankWarning

if TYPE_CHECKING:
    from tautrank.ranker.list_features import ListFeatures

_MOST_NAMED = 3
# What Solr adds to every threshold, in float32.
SOLR_SLACK = np.float32(1e-6)
# LightGBM's thresholds next to 0 have this size: no value lies between them and where Solr can put
# them.
_ZERO = np.float32(1e-35)
_RANK_FEATURE = re.compile(r"[A-Za-z_]\w*(\([^()]*(\([^()]*\)[^()]*)*\))?(\.\w+)*")
# LightGBM separates names by spaces, and writes them into JSON unescaped.
_FORBIDDEN = ' ",:[]{}='


@dataclass(frozen=True, eq=False)
class Export:
    """One model to be written in one format.

    Args:
        format: name of the format.
        model: the fitted model.
        names: names of its features, in the order of the columns.
        named: whether these names are known; if not, they are ``f1``, ``f2``, ...
        name: name of the model.
        store: feature store, for Solr; None for the default one.
        lists: its list features, for formats that can express them; None if it has none.
        directions: whether missing values go where each split says, for OpenSearch.
    """

    format: str
    model: FittedModel
    names: tuple[str, ...]
    named: bool
    name: str
    store: str | None = None
    lists: ListFeatures | None = None
    directions: bool = False

    @functools.cached_property
    def trees(self) -> list[Tree]:
        """The trees as plain arrays; one tree of 0 where there are none, which no system reads."""
        return self.model.trees() or [Tree.constant(0.0)]

    @property
    def depends_on_missing(self) -> str:
        """The features whose missing values go elsewhere than 0, for a sentence; empty if there are
        none.
        """
        columns = sorted(
            {int(column) for tree in self.trees for column in tree.feature[tree.depends_on_missing]}
        )
        named = ", ".join(f"'{self.names[column]}'" for column in columns[:_MOST_NAMED])
        return named + (
            f" and {len(columns) - _MOST_NAMED} more features" if len(columns) > _MOST_NAMED else ""
        )

    def warn_of_missing(self, effect: str) -> None:
        """Warn if the model distinguishes missing values from 0.

        Args:
            effect: what the other system does, for the sentence.
        """
        if self.depends_on_missing:
            self.warn(
                f"the model tells missing values of {self.depends_on_missing} from 0, {effect}"
            )

    def warn(self, sentence: str) -> None:
        """Warn about what the other system does differently.

        Args:
            sentence: the text after the name of the format.
        """
        warnings.warn(f"{self.format}: {sentence}", TautrankWarning, stacklevel=4)


def solr_thresholds(thresholds: F64) -> tuple[F32, F32]:
    """Return what to write for Solr, and the thresholds it compares with: the former plus
    `SOLR_SLACK`, in float32.

    They are those of `greatest_float32`, except near 0 and below powers of two, where no float32
    plus the slack gives that number; there it is the next one below that can be reached. 0 can be
    reached, so it stays on its side of every threshold.

    Args:
        thresholds: doubles.

    >>> written, compared = solr_thresholds(np.array([0.5, 0.0]))
    >>> written, compared
    (array([ 4.99999e-01, -1.00000e-06], dtype=float32), array([0.5, 0. ], dtype=float32))
    """
    goal = greatest_float32(thresholds)
    # The subtraction is rounded: the number looked for may be next to it.
    near = goal - SOLR_SLACK
    best, reached = np.full_like(goal, -math.inf), np.full_like(goal, -math.inf)
    with np.errstate(over="ignore"):
        for end in (math.inf, -math.inf):
            written = near
            for _ in range(3):
                sums = written + SOLR_SLACK
                better = (sums <= goal) & (sums > reached)
                best, reached = np.where(better, written, best), np.where(better, sums, reached)
                written = np.nextafter(written, np.float32(end))
    return best, reached


def float32_leaves(leaves: F64) -> F32:
    """Return leaves as the nearest float32.

    Args:
        leaves: doubles.

    >>> float32_leaves(np.array([1e39]))
    Traceback (most recent call last):
    tautrank.errors.DataError: model: a leaf adds 1e+39 to the score; expected at most 3.4e+38, the largest float32
    """
    with np.errstate(over="ignore"):
        single = leaves.astype(np.float32)
    wrong = ~np.isfinite(single)
    if wrong.any():
        expected = "at most 3.4e+38, the largest float32"
        raise DataError(
            f"model: a leaf adds {leaves[wrong][0]:g} to the score; expected {expected}"
        )
    return single


def float32_text(number: np.float32) -> str:
    """Return the shortest text that Java's ``Float.parseFloat`` reads as the same float32.

    Args:
        number: any float32 but NaN.

    >>> float32_text(np.float32(0.1)), float32_text(np.float32("-inf"))
    ('0.1', '-Infinity')
    """
    return str(number) if np.isfinite(number) else ("Infinity" if number > 0 else "-Infinity")


def _nested_json(
    tree: Tree, marks: Sequence[str], split: Callable[[int, int], Any], leaf: Callable[[int], Any]
) -> str:
    """Write a tree as JSON in which every split holds its children.

    Args:
        tree: the tree.
        marks: what stands before the left child, between the children, and after the right one.
        split: from a split and its depth to what stands before the children.
        leaf: from a leaf to what it is.
    """

    def texts(node: int, depth: int) -> tuple[str, str, str]:
        return (
            json.dumps(split(node, depth), ensure_ascii=False)[:-1] + marks[0],
            marks[1],
            marks[2],
        )

    return tree.nested_text(texts, lambda node, _: json.dumps(leaf(node)))


def solr_model(export: Export) -> str:
    """Return the body of a request to Solr's model store.

    Args:
        export: the model to write, with the names in Solr's feature store.
    """
    trees, names, missing = export.trees, export.names, bool(export.depends_on_missing)
    export.warn_of_missing(
        'which needs Solr 9.2 or newer, and "defaultValue": "NaN" in the definition of these features'
    )
    _warn_of_moved_thresholds(export)
    # Solr computes every feature that a model lists.
    used = sorted({int(column) for tree in trees for column in tree.feature}) or range(len(names))
    head: dict[str, object] = {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "name": export.name,
    }
    if export.store is not None:
        head["store"] = export.store
    head["features"] = [{"name": names[column]} for column in used]
    texts = [f'{{"weight": "1", "root": {_root(tree, names, missing)}}}' for tree in trees]
    null = '"isNullSameAsZero": false, ' if missing else ""
    opening = json.dumps(head, ensure_ascii=False)[:-1]
    return f'{opening}, "params": {{{null}"trees": [\n' + ",\n".join(texts) + "\n]}}\n"


def _root(tree: Tree, names: Sequence[str], with_missing: bool) -> str:
    thresholds, _ = solr_thresholds(tree.threshold)
    leaves = float32_leaves(tree.leaf)

    def split(node: int, _: int) -> dict[str, Any]:
        # Solr fails at a missing value if a split does not say where it goes.
        side = {"missing": "left" if tree.missing_left[node] else "right"} if with_missing else {}
        return {
            "feature": names[tree.feature[node]],
            "threshold": float32_text(thresholds[node]),
            **side,
        }

    marks = ', "left": ', ', "right": ', "}"
    return _nested_json(tree, marks, split, lambda leaf: {"value": float32_text(leaves[leaf])})


def _warn_of_moved_thresholds(export: Export) -> None:
    thresholds = np.concatenate([tree.threshold for tree in export.trees])
    goal, (_, reached) = greatest_float32(thresholds), solr_thresholds(thresholds)
    moved = (reached < goal) & (np.abs(goal) > _ZERO)
    if moved.any():
        far = float(np.max(goal[moved].astype(np.float64) - reached[moved]))
        lower = f"{int(moved.sum())} of {thresholds.size} come out lower than the model's, by {far:.1g} at most"
        effect = "only documents with values in between are scored otherwise"
        export.warn(f"adds 1e-6 to thresholds in float32, so {lower}; {effect}")


def plugin_model(export: Export) -> str:
    """Return the body of ``POST _ltr/_featureset/SET/_createmodel``.

    Args:
        export: the model to write, with the names in the feature set.
    """
    does = f"{export.format} takes them for 0"
    if export.directions or export.model.tool == "xgboost":
        does = "versions of the plugin differ: some take them for 0, some send them right, some where XGBoost does"
        texts = ",\n".join(_xgboost_json(tree, export.names) for tree in export.trees)
        kind, definition = "model/xgboost+json", f"[{texts}]"
    else:
        # Indentation is for readers, and two bytes per tab inside JSON.
        kind, definition = "model/ranklib", _ranklib_text(export.trees).replace("\t", "")
    if not export.directions:
        export.warn_of_missing(f"and {does}")
    body = {"model": {"name": export.name, "model": {"type": kind, "definition": definition}}}
    return json.dumps(body, ensure_ascii=False) + "\n"


def _xgboost_json(tree: Tree, names: Sequence[str]) -> str:
    """Return a tree as XGBoost dumps it: a document goes to ``yes`` if its float32 value is below
    the condition.

    Args:
        tree: the tree.
        names: the names of the features.

    >>> _xgboost_json(Tree.constant(0.5), [])
    '{"nodeid": 0, "leaf": 0.5}'
    """
    # JSON has no infinity.
    most = np.finfo(np.float32).max
    conditions = np.clip(
        np.nextafter(greatest_float32(tree.threshold), np.float32(math.inf)), -most, most
    )
    leaves = float32_leaves(tree.leaf)

    def number(child: int) -> int:
        return child if child >= 0 else tree.feature.size + ~child

    # All digits of the float32: the plugins read numbers as doubles and round those.
    def split(node: int, depth: int) -> dict[str, Any]:
        yes, no = number(int(tree.left[node])), number(int(tree.right[node]))
        asked = {"split": names[tree.feature[node]], "split_condition": float(conditions[node])}
        ways = {"yes": yes, "no": no, "missing": yes if tree.missing_left[node] else no}
        return {"nodeid": node, "depth": depth, **asked, **ways}

    marks = ', "children": [', ", ", "]}"
    return _nested_json(
        tree, marks, split, lambda leaf: {"nodeid": number(~leaf), "leaf": float(leaves[leaf])}
    )


def ranklib_model(export: Export) -> str:
    """Return the model file of RankLib's LambdaMART.

    Args:
        export: the model to write.
    """
    export.warn_of_missing("and RankLib takes them for 0")
    return _ranklib_text(export.trees)


def _ranklib_text(trees: Sequence[Tree]) -> str:
    """Return trees in RankLib's text.

    Args:
        trees: the trees of a model.
    """
    # RankLib finds the kind of model in the first line, and reads no other comment.
    leaves = max(tree.leaf.size for tree in trees)
    header = f"## LambdaMART\n## No. of trees = {len(trees)}\n## No. of leaves = {leaves}\n## Learning rate = 1.0\n\n"
    texts = [
        f'\t<tree id="{number}" weight="1.0">\n\t\t<split>\n{_ranklib_tree(tree)}\t\t</split>\n\t</tree>\n'
        for number, tree in enumerate(trees, 1)
    ]
    return header + "<ensemble>\n" + "".join(texts) + "</ensemble>\n"


def _ranklib_tree(tree: Tree) -> str:
    thresholds, leaves = greatest_float32(tree.threshold), float32_leaves(tree.leaf)

    # One element per line: RankLib joins the lines, and reads white space between elements as a
    # child.
    def split(node: int, depth: int) -> tuple[str, str, str]:
        indent, feature, threshold = (
            "\t" * (depth + 3),
            tree.feature[node] + 1,
            float32_text(thresholds[node]),
        )
        question = f"{indent}<feature> {feature} </feature>\n{indent}<threshold> {threshold} </threshold>\n"
        left, right, end = (
            f'{indent}<split pos="left">\n',
            f'{indent}<split pos="right">\n',
            f"{indent}</split>\n",
        )
        return question + left, end + right, end

    def output(leaf: int, depth: int) -> str:
        return "\t" * (depth + 3) + f"<output> {float32_text(leaves[leaf])} </output>\n"

    return tree.nested_text(split, output)


def vespa_model(export: Export) -> str:
    """Return a file for the ``models`` folder of a Vespa application.

    Args:
        export: the model to write; its features are rank features, or functions of the rank
            profile.
    """
    for name in export.names:
        if not _RANK_FEATURE.fullmatch(name):
            expected = "names such as bm25(title), attribute(price) or the name of a function"
            raise OptionError(
                f"features: found '{name}', which is not a rank feature of Vespa; expected {expected}"
            )
    head = {
        "name": "tree",
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "max_feature_idx": len(export.names) - 1,
        # Among those Vespa knows, one that leaves the sum of the leaves as it is.
        "objective": "lambdarank",
        "feature_names": list(export.names),
        "feature_infos": {},
        "pandas_categorical": [],
    }
    texts = [
        f'{{"tree_index": {number}, "num_leaves": {tree.leaf.size}, "tree_structure": {_structure(tree)}}}'
        for number, tree in enumerate(export.trees)
    ]
    return (
        json.dumps(head, ensure_ascii=False)[:-1]
        + ', "tree_info": [\n'
        + ",\n".join(texts)
        + "\n]}\n"
    )


def _structure(tree: Tree) -> str:
    # A split on "is missing" has the largest double; JSON has no infinity, which would be next.
    thresholds = np.minimum(np.nextafter(tree.threshold, math.inf), np.finfo(np.float64).max)

    def split(node: int, _: int) -> dict[str, Any]:
        asked = {
            "split_feature": int(tree.feature[node]),
            "threshold": float(thresholds[node]),
            "decision_type": "<=",
        }
        return {**asked, "default_left": bool(tree.missing_left[node]), "missing_type": "NaN"}

    marks = ', "left_child": ', ', "right_child": ', "}"
    return _nested_json(tree, marks, split, lambda leaf: {"leaf_value": float(tree.leaf[leaf])})


def lightgbm_text(export: Export) -> str:
    """Return what ``lightgbm.Booster(model_file=...)`` reads; its ``predict(X, raw_score=True)``
    gives the scores.

    Args:
        export: the model to write; where no names are known, LightGBM's ``Column_0, Column_1, ...``
            stay.
    """
    model, names = export.model, export.names
    if not isinstance(model, LightGBMModel):
        found = f"lightgbm for a model trained by {model.tool}"
        raise OptionError(f"format: found {found}; expected one trained by lightgbm")
    text = model.to_text()
    if not export.named:
        return text
    for name, character in itertools.product(names, _FORBIDDEN):
        if character in name:
            raise OptionError(
                f"features: LightGBM cannot read the name '{name}'; expected names without '{character}'"
            )
    text = re.sub(
        r"^feature_names=.*$",
        lambda _: f"feature_names={' '.join(names)}",
        text,
        count=1,
        flags=re.M,
    )
    # LightGBM writes the names once more, with what they have gained.
    return str(package("lightgbm").Booster(model_str=text).model_to_string(num_iteration=-1))
