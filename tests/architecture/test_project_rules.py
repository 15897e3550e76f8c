"""The rules of CONTRIBUTING.md that a test can check: layers, sizes, charters, names."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "holdfast"
FILES = sorted(SOURCE.rglob("*.py"))
ROOMS = sorted(p.parent for p in SOURCE.glob("*/__init__.py"))
PACKAGES = [
    *ROOMS,
    *(p.parent for room in ("api", "state", "scheduling", "server", "node")
      for p in sorted((SOURCE / room).glob("*/__init__.py"))),
]  # fmt: skip
"""Rooms, and the packages of rooms that have several subjects."""


def test_import_contracts_hold():
    script = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [script, "--no-cache"], cwd=SOURCE.parents[1], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_few_modules_outside_classic_dra_import_it():
    contracts = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())
    [contract] = [
        each
        for each in contracts["tool"]["importlinter"]["contracts"]
        if each["name"] == "Classic DRA is imported by few"
    ]
    outside = [name for name in contract["allowed_importers"] if "classic" not in name]
    assert len(outside) < 20
    for name in outside:
        path = SOURCE.parent.joinpath(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert re.search("(from|import) .*classic", file.read_text()), f"{name} imports none of it"


def test_no_file_is_longer_than_500_lines():
    lines = {str(f.relative_to(SOURCE)): len(f.read_text().splitlines()) for f in FILES}
    long = {name: count for name, count in lines.items() if count > 500}
    assert not long, f"one idea a file; split these: {long}"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: f"{p.relative_to(SOURCE)}")
def test_every_package_states_its_charter(package):
    charter = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    words = " ".join(charter.split())
    assert "Lives here" in words and "May not live here" in words


def test_no_module_has_a_meaningless_name():
    empty = {"utils", "util", "helpers", "common", "manager", "base", "misc"}
    assert not [f for f in FILES if f.stem in empty]


def test_every_folder_of_tests_is_a_package():
    """Modules of the same name, such as conftest, need different packages."""
    folders = {f.parent for f in Path(__file__).parents[1].glob("*/**/*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


TESTS = Path(__file__).parents[1]


def imported_test_modules(source, folder=()):
    """Return the modules of tests that a module in a folder of tests imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = [*folder[: len(folder) - node.level + 1]] if node.level else []
            module = [*parent, *(node.module.split(".") if node.module else ())]
            names = [module, *([*module, alias.name] for alias in node.names)]
        else:
            continue
        for name in names:
            path = TESTS.joinpath(*name).with_suffix(".py")
            if name[-1].startswith("test_") and path.exists():
                yield ".".join(name)


def test_no_test_imports_from_another_test():
    """What several tests need is a module of its own beside them; tests/README.md."""
    wrong = {
        f"{path.relative_to(TESTS)} imports {name}"
        for path in TESTS.rglob("*.py")
        for name in imported_test_modules(path.read_text(), path.relative_to(TESTS).parent.parts)
    }
    assert not wrong


@pytest.mark.parametrize(
    "source",
    [
        "from architecture.test_project_rules import FILES",
        "from architecture import test_project_rules",
        "import architecture.test_project_rules",
        "from .test_project_rules import FILES",
        "from . import test_project_rules",
        "from ..architecture.test_project_rules import FILES",
    ],
)
def test_an_import_from_a_test_is_found(source):
    assert [*imported_test_modules(source, ("architecture",))] == [
        "architecture.test_project_rules"
    ]


def test_no_file_contains_paths_of_one_machine():
    root = SOURCE.parents[1]
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True).stdout
    words = ["/" + "work/", "/" + "farm/", "/" + "root/"]
    for name in listed.splitlines():
        path = root / name
        if path.suffix in {".py", ".md", ".yaml", ".toml", ".sh", ""} and path.is_file():
            text = path.read_text(errors="replace")
            assert not any(w in text for w in words), name


def test_the_architecture_page_lists_every_package_and_top_level_module():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    modules = [f.name for f in SOURCE.glob("*.py") if not f.name.startswith("_")]
    missing = [
        name for name in (*modules, *(package.name for package in ROOMS)) if f"`{name}`" not in page
    ]
    assert not missing


SERVER = SOURCE / "server"
GENERIC = [
    *sorted((SERVER / "verbs").glob("*.py")),
    SERVER / "api_server.py",
    SERVER / "discovery.py",
]


@pytest.mark.parametrize("file", GENERIC, ids=lambda p: p.stem)
def test_verbs_do_not_depend_on_the_kind(file):
    """Differences between kinds are in their descriptors, not in comparisons inside a verb."""
    comparisons = [
        ast.unparse(node) for node in ast.walk(ast.parse(file.read_text())) if _compares_kind(node)
    ]
    assert not comparisons, comparisons


def _compares_kind(node):
    match node:
        case ast.Compare(left=left, comparators=others):
            sides = [left, *others]
            parts = [part for side in sides for part in ast.walk(side)]
            return any(_is_read(side, "group_resource") for side in sides) or (
                any(_is_read(part, "group", "plural", "kind") for part in parts)
                and any(_is_literal(side) for side in sides)
            )
        case ast.Subscript(slice=key):
            return _is_read(key, "group_resource")
        case ast.Call(func=ast.Attribute(), args=[key, *_]):
            return _is_read(key, "group_resource")
    return False


def _is_read(node, *names):
    return isinstance(node, ast.Attribute) and node.attr in names


def _is_literal(node):
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(isinstance(item, ast.Constant) and item.value is not None for item in items)


@pytest.mark.parametrize(
    "source",
    [
        'op.descriptor.group_resource == ("", "pods")',
        "op.descriptor.group_resource in TABLE",
        "TABLE[descriptor.group_resource]",
        "TABLE.get(op.descriptor.group_resource, ())",
        'descriptor.resource.plural == "pods"',
        '(r.group, r.plural) == ("", "pods")',
    ],
)
def test_a_comparison_of_the_kind_is_found(source):
    assert any(_compares_kind(node) for node in ast.walk(ast.parse(source)))
