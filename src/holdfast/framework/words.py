"""Verdicts on single rows that no filter's state can tell again: nominated pods were counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.framework.values import Code, Rows


@dataclass(frozen=True, slots=True)
class Word:
    """What one filter says of one row."""

    plugin: str
    code: Code
    reasons: tuple[str, ...]


class Words:
    """Words by row. Thousands of rows say the same few things, so each is kept once.

    ``of`` has, per row, 0 for silence or the number of the word, counted from 1.
    """

    __slots__ = ("_counts", "_numbers", "_said", "of")

    def __init__(self, size: int) -> None:
        self.of: NDArray[np.int32] = np.zeros(size, np.int32)
        self._said: list[Word] = []
        self._counts: list[int] = []
        self._numbers: dict[Word, int] = {}

    def __contains__(self, row: int) -> bool:
        return bool(row < len(self.of) and self.of[row])

    def __bool__(self) -> bool:
        return any(self._counts)

    def at(self, row: int) -> Word | None:
        """What is said of a row."""
        number = int(self.of[row]) if row < len(self.of) else 0
        return self._said[number - 1] if number else None

    def put(self, row: int, word: Word | None) -> None:
        """Say something of a row; None silences it."""
        old, new = int(self.of[row]), self._number(word)
        if old != new:
            self.of[row] = new
            if old:
                self._counts[old - 1] -= 1
            if new:
                self._counts[new - 1] += 1

    def put_all(self, rows: Rows, word: Word | None) -> None:
        """Say the same of several rows."""
        self.of[rows] = self._number(word)
        self._counts = np.bincount(self.of, minlength=len(self._said) + 1)[1:].tolist()

    def _number(self, word: Word | None) -> int:
        if word is None:
            return 0
        number = self._numbers.setdefault(word, len(self._said) + 1)
        if number > len(self._said):
            self._said.append(word)
            self._counts.append(0)
        return number

    def sized(self, size: int) -> Words:
        """An independent copy of so many rows; beyond those there are nobody says anything."""
        made = Words(size)
        made.of[: len(self.of)] = self.of[:size]
        made._said, made._counts = list(self._said), list(self._counts)
        made._numbers = dict(self._numbers)
        return made

    def write_codes(self, codes: NDArray[np.int8]) -> Rows:
        """Enter the codes of the rows of which something is said; answers those."""
        rows: Rows = (self.of != 0).nonzero()[0]
        table = np.array([0, *(word.code for word in self._said)], np.int8)
        codes[rows] = table[self.of[rows]]
        return rows

    def of_plugin(self, name: str) -> NDArray[np.bool_]:
        """Tell which rows have a word of a plugin."""
        numbers = [i for i, word in enumerate(self._said, 1) if word.plugin == name]
        found = np.zeros(len(self.of), np.bool_)
        for number in numbers:
            found |= self.of == number
        return found

    def plugins(self) -> set[str]:
        """Plugins of which something is told."""
        told = zip(self._said, self._counts, strict=True)
        return {word.plugin for word, count in told if count}

    def tally(self, silence: tuple[str, ...]) -> Counter[str]:
        """How many rows give each reason, where a word without reasons means ``silence``."""
        found: Counter[str] = Counter()
        for word, count in zip(self._said, self._counts, strict=True):
            for reason in word.reasons or silence if count else ():
                found[reason] += count
        return found


SILENCE = Words(0)
