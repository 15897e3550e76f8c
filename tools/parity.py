"""Run upstream's own test cases and count, file by file, how many pass."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "build" / "parity.xml"
sys.path.insert(0, str(ROOT / "tests"))

from parity import vectors  # noqa: E402

COLUMNS = ("in scope", "pass", "fail", "excepted", "not yet covered")
NO_TESTS_FOUND = 5


def main() -> int:
    """Run the cases, print the table, return the exit code."""
    if not vectors.present():
        print(vectors.ABSENT.format(vectors.directory()))
        return 1 if vectors.must_be_present() else 0
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "tests/parity", "-q", "-n", "2", "--tb=short",
               f"--junitxml={REPORT}", *sys.argv[1:]]  # fmt: skip
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if not REPORT.exists():
        return code or 1
    outcomes = read_outcomes(REPORT)
    table = {file: count(file, outcomes) for file in sorted({row.file for row in vectors.scope()})}
    show(table)
    failed = any(counts["fail"] for counts in table.values())
    return 1 if failed else 0 if code == NO_TESTS_FOUND else code


def read_outcomes(report: Path) -> dict[str, str]:
    """Return the outcome of each record, the worst one if several cases share it."""
    worst = ("fail", "excepted", "pass")
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        keys = [p.get("value") for p in case.iter("property") if p.get("name") == "vector"]
        outcome = outcome_of(case)
        for key in keys:
            if key is not None and outcome is not None:
                found[key] = min(found.get(key, "pass"), outcome, key=worst.index)
    return found


def outcome_of(case: ET.Element) -> str | None:
    """Return the outcome of one case; None for a plain skip."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "fail"
    skipped = case.find("skipped")
    if skipped is None:
        return "pass"
    return "excepted" if skipped.get("type") == "pytest.xfail" else None


def count(file: str, outcomes: dict[str, str]) -> Counter[str]:
    """Count the records of one file."""
    records = vectors.in_scope(file)
    counts = Counter(outcomes.get(record.key, "not yet covered") for record in records)
    counts["in scope"] = len(records)
    return counts


def show(table: dict[str, Counter[str]]) -> None:
    """Print one line for each file with records in scope, and the totals."""
    total: Counter[str] = Counter()
    width = max(map(len, table))
    print(f"\n{'vector file':{width}}" + "".join(f"{name:>17}" for name in COLUMNS))
    for file, counts in table.items():
        if counts["in scope"]:
            print(f"{file:{width}}" + "".join(f"{counts[name]:>17}" for name in COLUMNS))
            total.update(counts)
    print(f"{'total':{width}}" + "".join(f"{total[name]:>17}" for name in COLUMNS))


if __name__ == "__main__":
    sys.exit(main())
