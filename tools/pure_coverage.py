"""Print the part of the pure packages that their tests execute.

The packages are those of the import contract "Deciding is pure" in pyproject.toml. Their tests are
the folders of tests with their names, the laws, the conformance tests and the doctests; other tests
execute more. Run as ``make coverage``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
CONTRACT = "Deciding is pure"
THEMES = ("capacity", "conformance", "laws")
"""Folders of tests that are about several pure packages."""
OTHER_THEMES = frozenset({"reservations"})
"""Folders of tests that have the name of a package, but run a whole cluster (tests/README.md)."""
MOST_FILES = 10


def pure_packages(pyproject: dict[str, Any]) -> list[str]:
    """Return the packages that the contract names, such as ``holdfast.api``."""
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    (pure,) = (one for one in contracts if one["name"].startswith(CONTRACT))
    return sorted(pure["source_modules"])


def folder(package: str, root: Path = ROOT) -> Path:
    """Return the folder of a package's source."""
    return root.joinpath("src", *package.split("."))


def folders_of_tests(packages: list[str], root: Path = ROOT) -> list[Path]:
    """Return the test folders of the packages, of the packages in them, and of the themes.

    ``holdfast.state.columns`` is tested by ``tests/state/columns``, or by ``tests/columns``.
    """
    tests, source = root / "tests", root / "src" / "holdfast"
    found = [tests / theme for theme in THEMES]
    for package in packages:
        outer = folder(package, root)
        for place in (outer, *inner_packages(outer)):
            found += [tests / place.relative_to(source), tests / place.name]
    others = {tests / name for name in OTHER_THEMES}
    return [path for path in dict.fromkeys(found) if path.is_dir() and path not in others]


def inner_packages(outer: Path) -> list[Path]:
    """Return the folders of the packages that are directly in a package."""
    return sorted(path.parent for path in outer.glob("*/__init__.py"))


@dataclass
class Count:
    """The numbers of statements and branches, and of those that were not executed."""

    name: str
    statements: int = 0
    missing: int = 0
    branches: int = 0
    missing_branches: int = 0

    def add(self, summary: dict[str, int]) -> None:
        """Add the counts of one file."""
        self.statements += summary["num_statements"]
        self.missing += summary["missing_lines"]
        self.branches += summary["num_branches"]
        self.missing_branches += summary["missing_branches"]

    @property
    def percent(self) -> float:
        """Return the executed part of statements and branches together."""
        total = self.statements + self.branches
        return 100.0 * (1 - (self.missing + self.missing_branches) / total) if total else 100.0

    def __str__(self) -> str:
        return (f"{self.name:54}{self.statements:11}{self.missing:9}"
                f"{self.branches:10}{self.missing_branches:9}{self.percent:10.1f}")  # fmt: skip


HEADER = f"{'':54}{'statements':>11}{'missing':>9}{'branches':>10}{'missing':>9}{'covered %':>10}"


def by_package(files: dict[str, Any], packages: list[str]) -> Iterator[Count]:
    """Yield the counts of each package and of the packages in it, then those of all together."""
    total = Count("all pure packages")
    for package in packages:
        outer = Count(package)
        inner: dict[str, Count] = {}
        inside = "/".join(("src", *package.split("."), ""))
        for path, file in files.items():
            if not path.startswith(inside):
                continue
            name, is_package, _ = path.removeprefix(inside).partition("/")
            counts = [outer, total]
            if is_package:
                counts.append(inner.setdefault(name, Count(f"  {name}")))
            for count in counts:
                count.add(file["summary"])
        yield outer
        yield from (inner[name] for name in sorted(inner))
    yield total


def least_covered(files: dict[str, Any]) -> list[Count]:
    """Return the files with the most statements and branches that were not executed."""
    counts = []
    for path, file in files.items():
        counts.append(Count(path.removeprefix("src/holdfast/")))
        counts[-1].add(file["summary"])
    return sorted(counts, key=lambda one: -one.missing - one.missing_branches)[:MOST_FILES]


def main() -> int:
    """Run the tests, print the table, return pytest's exit status."""
    packages = pure_packages(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    BUILD.mkdir(exist_ok=True)
    report = BUILD / "coverage.json"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not real and not parity and not kubectl",
         *(f"--cov={package}" for package in packages), f"--cov-report=json:{report}",
         *sys.argv[1:], *map(folder, packages), *folders_of_tests(packages)],
        check=False, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(BUILD / ".coverage")},
    )  # fmt: skip
    if not report.exists():
        return done.returncode or 1
    files = json.loads(report.read_text())["files"]
    print(f"\n{HEADER}")
    print(*by_package(files, packages), sep="\n")
    print("\nThe files with the most missing:", *least_covered(files), sep="\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
