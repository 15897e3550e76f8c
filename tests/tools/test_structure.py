"""The counts of ``tools/structure.py``, on small source trees."""

import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from plugin_contract import Contract  # noqa: E402
from source_modules import (  # noqa: E402
    fan_out,
    loose_modules,
    read_modules,
    repeated_classes,
    single_importers,
)
from structure import measure, words  # noqa: E402

FRAMEWORK = """
    class Plugin(Protocol):
        name: str
    class FilterPlugin(Plugin, Protocol):
        def filter(self, rows): ...
    class ExplainPlugin(FilterPlugin, Protocol):
        def explain(self, row): ...
    class Ledger(Protocol):
        def upsert(self, obj): ...
    class NodeFilter:
        def filter(self, rows):
            raise NotImplementedError
    class Tiers:
        def rows(self):
            return ()
    class UnusedDefaults:
        def rows(self):
            return ()
    class Arguments(msgspec.Struct):
        weight: int
    class _Both(FilterPlugin): ...
"""
PLUGINS = """
    class Fit:
        traits = Traits()
        def filter(self, rows): ...
    class NodeName:
        traits = Traits()
        def filter(self, rows): ...
    class FitArguments(Arguments): ...
    class PolicyTiers(Tiers): ...
"""


@pytest.fixture
def tree(tmp_path):
    def write(**texts):
        """Write modules by name, ``a__b`` for ``holdfast/a/b.py``, with empty packages."""
        root = tmp_path / "src" / "holdfast"
        for name, text in texts.items():
            path = root.joinpath(*name.split("__")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
            for folder in path.relative_to(root).parents:
                (root / folder / "__init__.py").touch()
        return tmp_path

    return write


def test_points_are_protocols_of_plugins_and_base_classes(tree):
    root = tree(framework__plugin=FRAMEWORK, plugins__fit=PLUGINS)
    contract = Contract(read_modules(root / "src"))
    assert contract.points == ["Plugin", "FilterPlugin", "ExplainPlugin", "NodeFilter", "Tiers"]
    assert contract.other_protocols == ["Ledger"]


def test_a_point_is_implemented_by_its_methods_or_by_derivation(tree):
    root = tree(framework__plugin=FRAMEWORK, plugins__fit=PLUGINS)
    rare = Contract(read_modules(root / "src")).rarely_implemented()
    assert "FilterPlugin" not in rare
    assert rare["Tiers"] == ["PolicyTiers"]
    assert rare["ExplainPlugin"] == []


def test_the_contract_may_lie_below_another_package(tree):
    root = tree(scheduling__contract__plugin=FRAMEWORK, scheduling__plugins__fit=PLUGINS)
    assert len(Contract(read_modules(root / "src")).points) == 5


def test_imports_are_counted_by_module_and_by_package(tree):
    root = tree(
        a__one="class Thing: ...\nclass _Own: ...",
        a__two="from holdfast.a.one import Thing\nimport holdfast.clock",
        b__three="from holdfast.a import two\nclass Thing: ...\nclass _Own: ...",
        b__four_pb2="from holdfast.a.one import Thing",
        clock="",
    )
    modules = read_modules(root / "src")
    assert single_importers(modules) == {"a.one": "a.two", "a.two": "b.three", "clock": "a.two"}
    assert fan_out(modules) == {"a": ["clock"], "b": ["a"]}
    assert loose_modules(modules) == ["clock"]
    assert repeated_classes(modules) == {"Thing": ["a.one", "b.three"]}


def test_comments_and_docstrings_are_lines(tree):
    module = read_modules(
        tree(
            a__one='''\
            """Two
            lines."""
            # Why.
            LIMIT = 5  # not counted
            """Of an attribute."""
            TEXT = "# neither"
            '''
        )
        / "src"
    )[-1]
    assert module.comment_lines() == 1
    assert module.docstring_lines() == (2, 1)
    assert module.logical_lines() == 2


def test_phrases_are_counted_over_the_end_of_a_line(tree):
    root = tree(a__one="# a clock of its\n# own\nfound = found_rows = None  # Beside it")
    rows = words(read_modules(root / "src"), ["of its\nowner", "of its\nown, beside", "besides"])
    assert rows["“of its own”, src + docs"] == "1 + 1"
    assert rows["“beside”, src + docs"] == "1 + 1"
    assert rows["found, in src"] == "1"


def test_the_working_tree_has_a_figure_in_every_row():
    rows = measure(ROOT)
    assert int(rows["files"]) > 100
    assert all(rows[row] for row in ("points of the plugin contract", "packages at the top"))
