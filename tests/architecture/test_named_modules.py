"""Modules and files that the documentation and docstrings name exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "holdfast"
FILES = [path for path in SOURCE.rglob("*.py") if "_pb2" not in path.name]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", ROOT / "tests" / "README.md"]
PAGES += [page for page in (ROOT / "docs").rglob("*.md") if page.name != "upgrading.md"]
IN_PAGE = re.compile(r"`([\w./]+)`")
IN_DOCSTRING = re.compile(r"``([\w./]+)``")
AMBIGUOUS = {"cel", "devices", "node", "numa", "plugins", "runtime", "scheduling", "volumes"}
"""Packages named like a field of an object or something of Kubernetes: ``devices.requests``."""
NOT_OURS = {"cuda.py", "holdfast.plugins"}
GROUPS = (".sh", ".io", ".dev")
TOPS = ("src", "tests", "tools", "benchmarks", "examples")


def modules():
    """Return every module and package, as the words of its path below holdfast."""
    for path in SOURCE.rglob("*.py"):
        words = path.relative_to(SOURCE).with_suffix("").parts
        yield words[:-1] if words[-1] == "__init__" else words


MODULES = {words for words in modules() if words}
PACKAGES = {words[-1] for words in MODULES if (SOURCE.joinpath(*words)).is_dir()}
ROOMS = {path.parent.name for path in SOURCE.glob("*/__init__.py")} - {"api"}
ENDS = {words[-length:] for words in MODULES for length in range(1, len(words) + 1)}


PATHS = [path.relative_to(ROOT).parts for top in TOPS for path in (ROOT / top).rglob("*")]
ENDS_OF_PATHS = {parts[start:] for parts in PATHS for start in range(len(parts))}
ENDS_OF_PATHS |= {(top,) for top in TOPS}


@cache
def names_of(module):
    """Return what is defined or imported in a module, by the last words of its name."""
    files = [
        path
        for words in MODULES
        if words[-len(module) :] == module
        for path in (
            SOURCE.joinpath(*words).with_suffix(".py"),
            SOURCE.joinpath(*words, "__init__.py"),
        )
        if path.exists()
    ]
    found = set()
    for node in (n for file in files for n in ast.walk(ast.parse(file.read_text()))):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                found.add(name)
            case ast.Name(id=name) | ast.alias(name=name) | ast.arg(arg=name):
                found.add(name)
    return found


def is_wrong(text):
    """Tell whether a text in backticks names a module or file of ours that does not exist."""
    text = text.rstrip("/.")
    if text in NOT_OURS:
        return False
    if "/" in text or text.endswith(".py"):
        return _is_wrong_path(text)
    words = tuple(text.split("."))
    if (
        len(words) == 1
        or words[0] not in {"holdfast"} | PACKAGES - AMBIGUOUS
        or text.endswith(GROUPS)
    ):
        return False
    known = MODULES if words[0] == "holdfast" else ENDS
    words = words[1:] if words[0] == "holdfast" else words
    return not any(
        words[:count] in known and (count == len(words) or words[count] in names_of(words[:count]))
        for count in range(len(words), 0, -1)
    )


def _is_wrong_path(text):
    """Tell whether no file ends with this path; for a NAME in capitals, whether no folder does."""
    path = Path(text)
    if path.suffix != ".py" and path.parts[0] not in (*TOPS, *ROOMS):
        return False
    if any(word.isupper() for word in path.stem.split("_")):
        path = path.parent
    return path.parts not in ENDS_OF_PATHS


@pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.relative_to(ROOT)}")
def test_modules_named_by_a_page_exist(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    wrong = [text for text in IN_PAGE.findall(prose) if is_wrong(text)]
    assert not wrong


def test_modules_named_by_docstrings_exist():
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {text}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for text in IN_DOCSTRING.findall(node.value.value)
        if is_wrong(text)
    ]  # fmt: skip
    assert not wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("engine.decision", False),
        ("engine.decision.feasible", False),
        ("holdfast.state.columns.node_table", False),
        ("client.Client", False),
        ("engine.no_such_module", True),
        ("holdfast.columns", True),
        ("engine.decision.no_such_function", True),
        ("scheduling/engine/decision.py", False),
        ("engine/decision.py", False),
        ("columns/decision.py", True),
        ("tests/plugins/test_NAME.py", False),
        ("plugs/NAME.py", True),
        ("node_table.py", False),
        ("no_such_file.py", True),
        ("spec.template", False),
        ("devices.requests", False),
    ],
)
def test_what_counts_as_wrong(text, wrong):
    assert is_wrong(text) is wrong
