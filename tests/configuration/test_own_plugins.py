"""A user's own plugins: loaded by module:Class or entry point, or rejected with a reason."""

import sys
import textwrap
from importlib import metadata

import pytest

from configuration.config_builders import config, mistakes, names, on, profile
from holdfast.scheduling.configuration.catalog import Catalog
from holdfast.scheduling.configuration.reading import read
from holdfast.scheduling.framework.points import Point
from holdfast.testing import FakeCluster, a_node, a_pod

PER_NODE = """
from holdfast.plugin import PerNodePlugin

class Closed(PerNodePlugin):
    name = "Closed"

    def fits(self, pod, node):
        return "closed" if node.name in self.args["nodes"] else None

class Ranked(PerNodePlugin):
    name = "Ranked"

    def score(self, pod, node):
        return 100 if node.name == "b" else 0

class Lazy(PerNodePlugin):
    name = "Lazy"

class Nameless(PerNodePlugin):
    def fits(self, pod, node):
        return None

class SameName(Closed):
    pass

NUMBER = 3
"""
COLUMNAR = """
import numpy as np
from holdfast.plugin import NO_CHANGE, NodeFilter, Plugin, Reserver, Scope, Traits

class RejectAll(NodeFilter, Reserver):
    def __init__(self, word):
        self.word = word

    def filter(self, rows, change=NO_CHANGE):
        return np.ones(len(rows), np.int8)

    def reasons(self, row, change=NO_CHANGE):
        return (self.word,)

    def reserve(self, placement):
        return None

    def unreserve(self, placement):
        pass

class Columns(Plugin):
    name = "Columns"
    traits = Traits(scope=Scope.NODE)
    plan_classes = (RejectAll,)

    def __init__(self, args):
        self.word = args["word"]

    def reads(self, pod, view):
        return None

    def pre_filter(self, pod, view):
        return RejectAll(self.word)

class NoConstructor(Columns):
    name = "NoConstructor"

    def __init__(self):
        pass

class Underived:
    name = "Underived"

    def __init__(self, args):
        pass

class Nothing(Plugin):
    name = "Nothing"

    def __init__(self, args):
        pass

class Old(Nothing):
    name = "Old"
    scope = Scope.NODE

    def __init__(self, args):
        self.epochs = ("images",)

class Undeclared(Nothing):
    name = "Undeclared"
    traits = None

class Misplaced(Nothing):
    name = "Misplaced"

    def filter(self, rows, change=NO_CHANGE):
        return rows

class Unread(Columns):
    name = "Unread"
    reads = Plugin.reads

    def __init__(self, args):
        pass

class WithoutReason(NodeFilter):
    def filter(self, rows, change=NO_CHANGE):
        return rows

class Unreasoned(Columns):
    name = "Unreasoned"
    plan_classes = (WithoutReason,)

    def __init__(self, args):
        pass
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A catalog with a directory of modules, like the directory of a configuration file."""
    for module, text in (("mine", PER_NODE), ("columns_of_mine", COLUMNAR)):
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(text))
        monkeypatch.delitem(sys.modules, module, raising=False)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "needy.py").write_text("import not_there_at_all")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Catalog(module_dir=tmp_path)
    for module in ("mine", "columns_of_mine", "broken", "needy"):
        sys.modules.pop(module, None)


def only(raw, catalog):
    (found,) = read(raw, catalog).profiles.values()
    return found


def test_a_plugin_is_named_by_its_module_and_class(modules):
    args = {"mine:Closed": {"nodes": ["a"]}}
    found = only(config(profile(multiPoint=on("mine:Closed"), args=args)), modules)
    assert names(found, Point.FILTER)[-1] == "Closed"
    assert "Closed" not in names(found, Point.SCORE)
    cluster = FakeCluster(a_node("a"), a_node("b"), profile=found)
    assert cluster.place(a_pod("p")) == "b"
    nowhere = FakeCluster(a_node("a"), profile=found)
    assert nowhere.why(a_pod("p")).startswith("0/1 nodes are available: 1 closed.")


def test_an_own_plugin_may_be_enabled_at_one_point(modules):
    raw = config(profile(score=on(**{"mine:Ranked": 7})))
    found = only(raw, modules)
    assert (names(found, Point.SCORE)[-1], found.weight("Ranked")) == ("Ranked", 7)
    assert FakeCluster(a_node("a"), a_node("b"), profile=found).place(a_pod("p")) == "b"


def test_an_own_plugin_may_be_first_at_a_point(modules):
    args = {"columns_of_mine:Columns": {"word": "no way"}}
    sets = {"filter": on("columns_of_mine:Columns"), "multiPoint": on("columns_of_mine:Columns")}
    found = only(config(profile(**sets, args=args)), modules)
    assert names(found, Point.FILTER)[0] == "Columns"
    assert names(found, Point.RESERVE)[-1] == "Columns"
    assert "no way" in FakeCluster(a_node("a", cpu="1"), profile=found).why(a_pod("p", cpu="9"))


def test_each_profile_has_its_own_plugin_instance(modules):
    two = [
        profile(n, multiPoint=on("mine:Closed"), args={"mine:Closed": {"nodes": [n]}})
        for n in ("a", "b")
    ]
    found = read(config(*two), modules).profiles
    nodes = [a_node("a"), a_node("b")]
    assert FakeCluster(*nodes, profile=found["a"]).place(a_pod("p")) == "b"
    assert FakeCluster(*nodes, profile=found["b"]).place(a_pod("p")) == "a"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere:X", "cannot import nowhere: No module named 'nowhere': install the package, or "
         "put the module next to the configuration file"),
        ("needy:X", "cannot import needy: No module named 'not_there_at_all': install"),
        ("broken:X", "importing broken failed: ZeroDivisionError: division by zero"),
        ("mine:Absent", "mine has no class Absent; it has Closed, Lazy, Nameless, Ranked, Same"),
        ("mine:", 'plugin "mine:": the name must have the form module:Class'),
        (":X", 'plugin ":X": the name must have the form module:Class'),
        ("mine:NUMBER", 'plugin "mine:NUMBER" is not a class: 3'),
        ("mine:Nameless", 'class Nameless has no name: write `name = "Nameless"` in it'),
        ("mine:Lazy", "Lazy has neither fits nor score: write one of them"),
        ("columns_of_mine:Underived", "class Underived is no plugin: derive it from Plugin (from "
         "holdfast.plugin import Plugin)"),
        ("columns_of_mine:Nothing", "class Nothing implements no extension point: it has neither "
         "pre_filter nor another method of Plugin (see docs/plugins.md); to judge one node at a "
         "time derive it from PerNodePlugin"),
        ("columns_of_mine:Unread", "class Unread has no method reads: its scope is not CLUSTER, so "
         "results are cached by what reads returns"),
        ("columns_of_mine:Unreasoned", "class WithoutReason is a NodeFilter without "
         "`reason: str` or a method reasons"),
        ("columns_of_mine:Old", "class Old sets scope, epochs, which has no effect: write "
         "`traits = Traits(scope=..., epochs=...)` instead"),
        ("columns_of_mine:Misplaced", "class Misplaced has a method filter, which is never called: "
         "write it in a class derived from NodeFilter, which pre_filter returns"),
        ("columns_of_mine:Undeclared", "class Undeclared has no traits: write `traits = Traits()`"),
        ("columns_of_mine:NoConstructor", 'initializing plugin "columns_of_mine:NoConstructor": '
         "TypeError"),
        ("columns_of_mine:Columns", 'initializing plugin "columns_of_mine:Columns": KeyError: '
         "'word'"),
    ],
)  # fmt: skip
def test_a_plugin_that_cannot_be_loaded_is_reported(modules, name, words):
    (errors,) = mistakes(config(profile(multiPoint=on(name))), modules)
    assert errors.startswith("profiles[0].plugins.multiPoint.enabled[0]: ")
    assert words in errors


def test_an_own_plugin_at_a_point_it_does_not_implement(modules):
    raw = config(profile(score=on("mine:Closed"), args={"mine:Closed": {"nodes": []}}))
    assert mistakes(raw, modules) == [
        'profiles[0].plugins.score.enabled[0]: plugin "mine:Closed" does not extend ScorePlugin '
        "plugin"
    ]


def test_two_plugins_with_one_name_are_an_error(modules):
    args = {name: {"nodes": []} for name in ("mine:Closed", "mine:SameName")}
    raw = config(profile(multiPoint=on(*args), args=args))
    assert mistakes(raw, modules) == [
        'profiles[0].plugins: two plugins are named "Closed": rename one of them'
    ]


def test_an_entry_point_gives_a_plugin_a_short_name(modules, monkeypatch):
    point = metadata.EntryPoint("Ranked", "mine:Ranked", "holdfast.plugins")
    broken = metadata.EntryPoint("Torn", "nowhere:X", "holdfast.plugins")
    sys.path.append(str(modules._module_dir))

    def entry_points(group, name):
        assert group == "holdfast.plugins"
        return [p for p in (point, broken) if p.name == name]

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    found = only(config(profile(multiPoint=on("Ranked"))), modules)
    assert names(found, Point.SCORE)[-1] == "Ranked"
    (errors,) = mistakes(config(profile(multiPoint=on("Torn"))), modules)
    assert "cannot import nowhere:X" in errors
    assert mistakes(config(profile(multiPoint=on("Untold"))), modules)


def test_a_line_of_a_batch_loads_no_code(modules):
    lines = Catalog(load_user_code=False)
    (errors,) = mistakes(config(profile(multiPoint=on("mine:Ranked"))), lines)
    assert "is loaded only for a configuration in a file" in errors
    assert "mine" not in sys.modules
