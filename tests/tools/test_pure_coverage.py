"""What ``make coverage`` measures, and how it counts, on small trees and reports."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from pure_coverage import (  # noqa: E402
    by_package,
    folder,
    folders_of_tests,
    least_covered,
    pure_packages,
)

PACKAGES = pure_packages(tomllib.loads((ROOT / "pyproject.toml").read_text()))


def test_the_packages_of_the_import_contract_are_measured():
    assert "holdfast.api" in PACKAGES
    assert all((folder(package) / "__init__.py").exists() for package in PACKAGES)


def test_folders_of_tests_have_the_name_of_a_package_or_of_one_in_it(tmp_path):
    for path in (
        "src/holdfast/api", "src/holdfast/state/columns/volumes", "src/holdfast/state/numa",
        "src/holdfast/state/reservations", "tests/laws", "tests/api", "tests/state",
        "tests/state/numa", "tests/columns", "tests/volumes", "tests/reservations", "tests/cli",
    ):  # fmt: skip
        (tmp_path / path).mkdir(parents=True)
    for path in (tmp_path / "src" / "holdfast").rglob("*"):
        if path.is_dir():
            (path / "__init__.py").touch()
    found = folders_of_tests(["holdfast.api", "holdfast.state"], tmp_path)
    names = [str(path.relative_to(tmp_path / "tests")) for path in found]
    assert names == ["laws", "api", "state", "columns", "state/numa"]


def report(statements, missing, branches=0, missing_branches=0):
    names = ("num_statements", "missing_lines", "num_branches", "missing_branches")
    counts = (statements, missing, branches, missing_branches)
    return {"summary": dict(zip(names, counts, strict=True))}


FILES = {
    "src/holdfast/state/epochs.py": report(5, 0),
    "src/holdfast/state/columns/pods.py": report(6, 2),
    "src/holdfast/state/columns/volumes/claims.py": report(4, 3),
    "src/holdfast/api/pod.py": report(60, 0, 20, 0),
    "src/holdfast/api/node.py": report(15, 5, 5, 5),
    "src/holdfast/apiserver/server.py": report(50, 50),
    "src/holdfast/cel/rules.py": report(10, 1),
}


def test_the_files_of_a_package_are_added():
    api, cel, both = by_package(FILES, ["holdfast.api", "holdfast.cel"])
    assert (api.name, api.statements, api.missing, api.branches) == ("holdfast.api", 75, 5, 25)
    assert (api.percent, cel.percent, both.percent) == (90, 90, 90)
    assert (both.statements, both.missing_branches) == (85, 5)


def test_packages_in_a_package_have_a_line_each():
    state, columns, total = by_package(FILES, ["holdfast.state"])
    assert (state.statements, state.missing) == (total.statements, total.missing) == (15, 5)
    assert (columns.name.strip(), columns.statements, columns.percent) == ("columns", 10, 50)


def test_the_file_with_the_most_missing_comes_first():
    assert [one.name for one in least_covered(FILES)][:2] == ["apiserver/server.py", "api/node.py"]
