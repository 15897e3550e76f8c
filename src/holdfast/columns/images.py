"""Which images are on which nodes, so that a pod may go where its images are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.api.node import ContainerImage


@dataclass(slots=True, eq=False)
class Image:
    """An image by one of its names: its size as first told, and the rows that have it."""

    size: int
    rows: set[int] = field(default_factory=set)


class ImageIndex:
    """Images by name; ``seq`` moves whenever a node gains or loses one."""

    __slots__ = ("_names_at", "_of", "seq")

    def __init__(self) -> None:
        self._of: dict[str, Image] = {}
        self._names_at: dict[int, frozenset[str]] = {}
        self.seq = 0

    def find(self, names: Iterable[str]) -> list[Image]:
        """The images of these names that some node has, in the order asked."""
        return [self._of[name] for name in names if name in self._of]

    def set(self, row: int, images: Sequence[ContainerImage]) -> bool:
        """Say what a row has; tell whether an image is on a first node or no longer on any."""
        sizes = {name: image.size_bytes for image in images for name in image.names}
        old, new = self._names_at.get(row, frozenset()), frozenset(sizes)
        if old == new:
            return False
        self.seq += 1
        moved = False
        for name in old - new:
            moved |= self._take(name, row)
        for name in new - old:
            image = self._of.get(name)
            if image is None:
                image = self._of[name] = Image(sizes[name])
                moved = True
            image.rows.add(row)
        if new:
            self._names_at[row] = new
        else:
            self._names_at.pop(row, None)
        return moved

    def _take(self, name: str, row: int) -> bool:
        image = self._of[name]
        image.rows.discard(row)
        if image.rows:
            return False
        del self._of[name]
        return True

    def fork(self) -> ImageIndex:
        """An independent copy."""
        copy = ImageIndex()
        copy._of = {name: Image(image.size, set(image.rows)) for name, image in self._of.items()}
        copy._names_at = dict(self._names_at)
        copy.seq = self.seq
        return copy
