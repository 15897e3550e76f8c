"""Count the numbered scenarios of the specs in the last test runs' JUnit files.

A test may carry several numbers (``test_C005_C006_…``). A number counts as passed only when every
test that carries it ran and passed. Run as ``make scenarios`` after ``make test`` (and
``make real``). Their titles are in tests/scenarios.md.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

TABLE = Path(__file__).parents[1] / "tests" / "scenarios.md"
SPEC = re.compile(r"^## ([A-Z]): (.+)$", re.M)
ROW = re.compile(r"^\| ([A-Z]\d{3})( †)? \| (.+) \|$", re.M)
"""A line of the table: number, a mark if no test has it, title."""
NUMBERS = re.compile(r"test((?:_[A-Z]\d{3})+)_")


def specifications(table: str) -> Iterator[tuple[str, str, int]]:
    """Yield the letter, the name and the number of scenarios of each specification."""
    counts = Counter(number[0] for number, _, _ in ROW.findall(table))
    yield from ((letter, name, counts[letter]) for letter, name in SPEC.findall(table))


def outcome(case: ET.Element) -> tuple[str, str]:
    """Return the outcome of one test case, and why it did not pass."""
    for child in case:
        if child.tag in ("failure", "error"):
            return "failed", (child.get("message") or "").splitlines()[0][:100]
        if child.tag == "skipped":
            kind = "xfailed" if child.get("type") == "pytest.xfail" else "skipped"
            return kind, child.get("message") or ""
    return "passed", ""


def read(paths: list[Path]) -> dict[str, dict[str, str]]:
    """Return the worst outcome and its reason by scenario number."""
    order = ["passed", "skipped", "xfailed", "failed"]
    found: dict[str, dict[str, str]] = defaultdict(lambda: {"outcome": "passed", "why": ""})
    for path in paths:
        for case in ET.parse(path).iter("testcase"):
            if not (match := NUMBERS.search(case.get("name", ""))):
                continue
            what, why = outcome(case)
            for number in match[1].split("_")[1:]:
                entry = found[number]
                if order.index(what) > order.index(entry["outcome"]):
                    entry.update(outcome=what, why=why)
    return found


def main() -> int:
    """Print the table and the scenarios that did not pass."""
    paths = [p for p in map(Path, sys.argv[1:]) if p.exists()]
    if not paths:
        print("no test results yet: run `make test` first")
        return 1
    found, table = read(paths), TABLE.read_text()
    titles = {number: title for number, _, title in ROW.findall(table)}
    print(
        f"{'spec':36}{'passed':>8}{'xfailed':>9}{'skipped':>9}{'failed':>8}{'missing':>9}{'of':>5}"
    )
    for prefix, name, total in specifications(table):
        mine = {n: e for n, e in found.items() if n[0] == prefix}
        count = {k: sum(e["outcome"] == k for e in mine.values())
                 for k in ("passed", "xfailed", "skipped", "failed")}  # fmt: skip
        missing = total - len(mine)
        print(f"{prefix} {name:34}{count['passed']:8}{count['xfailed']:9}{count['skipped']:9}"
              f"{count['failed']:8}{missing:9}{total:5}")  # fmt: skip
    for number, entry in sorted(found.items()):
        if entry["outcome"] != "passed":
            print(f"  {number} {entry['outcome']}: {titles.get(number, '')}: {entry['why']}")
    return 1 if any(e["outcome"] == "failed" for e in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
