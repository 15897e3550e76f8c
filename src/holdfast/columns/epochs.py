"""Named versions: what a remembered answer depends on besides its rows."""

from __future__ import annotations


class Epochs:
    """Counters that only go up, one a name; ``stamp`` moves whenever any of them does.

    Comparing ``stamp`` is the cheap first question; only when it moved are single names compared.
    """

    __slots__ = ("_of", "stamp")

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self.stamp = 0

    def bump(self, name: str) -> None:
        """Say that everything depending on ``name`` must be looked at again."""
        self._of[name] = self._of.get(name, 0) + 1
        self.stamp += 1

    def __getitem__(self, name: str) -> int:
        return self._of.get(name, 0)

    def of(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """The versions of several names at once."""
        return tuple(self._of.get(name, 0) for name in names)

    def fork(self) -> Epochs:
        """An independent copy."""
        copy = Epochs()
        copy._of = dict(self._of)
        copy.stamp = self.stamp
        return copy
