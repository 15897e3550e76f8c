"""The table of scenarios and the tests that carry their numbers."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from scenarios import NUMBERS, ROW, TABLE, specifications  # noqa: E402

FUNCTION = re.compile(r"^ *(?:async )?def (test\w+)", re.M)
ROWS = ROW.findall(TABLE.read_text())


def numbers_of_tests():
    """The numbers in the names of tests."""
    return {
        number
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in FUNCTION.findall(path.read_text())
        if (match := NUMBERS.match(name))
        for number in match[1].split("_")[1:]
    }


def test_every_number_of_a_test_is_in_the_table():
    assert numbers_of_tests() == {number for number, untested, _ in ROWS if not untested}


def test_the_table_has_every_number_once_and_in_order():
    specs = {letter: count for letter, _, count in specifications(TABLE.read_text())}
    expected = [f"{letter}{i:03}" for letter in specs for i in range(1, specs[letter] + 1)]
    assert [number for number, _, _ in ROWS] == expected
    assert len(ROWS) == TABLE.read_text().count("\n| ") - len(specs)


def test_titles_are_short_and_differ():
    titles = [title for _, _, title in ROWS]
    assert max(map(len, titles)) <= 100
    assert len(set(titles)) == len(titles)
