"""The small wrong changes that ``make mutants`` makes."""

import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from mutant_changes import Changes, changes_of, is_change  # noqa: E402

EXPLAINED = tomllib.loads((ROOT / "tests" / "mutants_explained.toml").read_text())["equivalent"]


def changes(source):
    """What each change of a source makes of it."""
    raw = source.encode()
    found = {m.apply(raw).decode() for m in Changes("a.py", raw) if is_change(m, raw)}
    return found - {source}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a):\n    return a < 5", {"(a <= 5)", "a < 6", "a < 4"}),
        ("def f(a, b):\n    return a and b", {"((a) or (b))"}),
        ("def f(a):\n    return not a", {"(a)"}),
        ("def f(a):\n    return a is None", {"(a is not None)"}),
        ("def f(a):\n    return a in b", {"(a not in b)"}),
        ("def f(a):\n    return True", {"False"}),
    ],
)
def test_expressions_are_turned_round(source, expected):
    head = source.rpartition("return ")[0] + "return "
    assert changes(source) == {head + text for text in expected}


def test_statements_go_and_conditions_are_negated():
    source = "def f(a):\n    if a:\n        a.b = a\n    a.go()\n"
    assert changes(source) == {
        source.replace("if a:", "if not (a):"),
        source.replace("a.b = a", "pass"),
        source.replace("a.go()", "pass"),
    }


def test_entries_of_tables_go_or_change():
    assert changes('T = {"a": 1, "b": x}') == {
        'T = {"b": x}', 'T = {"a": 1}', "T = {'a-': 1, \"b\": x}", "T = {\"a\": 1, 'b-': x}",
        'T = {"a": 2, "b": x}', 'T = {"a": 0, "b": x}',
    }  # fmt: skip
    assert changes("T = K(x, y=z)") == {"T = K(x)"}
    assert changes("T = (x, y, z)") == {"T = (y, z)", "T = (x, z)", "T = (x, y)"}


def test_texts_docstrings_logs_and_annotations_stay():
    source = 'def f(a: int = b) -> None:\n    """Do 1."""\n    _log.info("x")\n    return f"{a}"\n'
    assert changes(source) == set()


@pytest.mark.parametrize(
    "source",
    [
        "Judge = Callable[[Pod, Event], Worth]",
        "_Rows = list[int] | slice",
        'V = TypeVar("V", bound=int)',
        "def f(a, b):\n    return zip(a, b, strict=True)",
    ],
)
def test_what_only_a_type_checker_reads_and_strict_stay(source):
    assert changes(source) == set()


@pytest.mark.parametrize("entry", EXPLAINED, ids=lambda entry: entry["before"][:40])
def test_every_explained_change_still_exists(entry):
    known = {m.key for m in changes_of(ROOT, entry["file"])}
    assert tuple(entry[part] for part in ("file", "function", "before", "after")) in known
    assert entry["why"]
