"""An index of the container images on nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.api.node import ContainerImage

Images = Sequence[ContainerImage]


@dataclass(slots=True, eq=False)
class Image:
    """One name of an image: its size as first reported, and the rows that have it."""

    size: int
    rows: set[int] = field(default_factory=set)


class ImageIndex:
    """Images by name; ``seq`` moves when a node gets or loses an image."""

    __slots__ = ("_of", "seq")

    def __init__(self) -> None:
        self._of: dict[str, Image] = {}
        self.seq = 0

    def find(self, names: Iterable[str]) -> list[Image]:
        """Return the images with these names that some node has, in the order of the names."""
        return [self._of[name] for name in names if name in self._of]

    def change(self, row: int, old: Images, new: Images) -> bool:
        """Replace a row's images; return whether an image is new or gone in the cluster."""
        if old == new:
            return False
        had = {name for image in old for name in image.names}
        sizes = {name: image.size_bytes for image in new for name in image.names}
        if had == sizes.keys():
            return False
        self.seq += 1
        moved = False
        for name in had - sizes.keys():
            moved |= self._take(name, row)
        for name in sizes.keys() - had:
            image = self._of.get(name)
            if image is None:
                image = self._of[name] = Image(sizes[name])
                moved = True
            image.rows.add(row)
        return moved

    def _take(self, name: str, row: int) -> bool:
        image = self._of[name]
        image.rows.discard(row)
        if image.rows:
            return False
        del self._of[name]
        return True

    def fork(self) -> ImageIndex:
        """Return an independent copy."""
        copy = ImageIndex()
        copy._of = {name: Image(image.size, set(image.rows)) for name, image in self._of.items()}
        copy.seq = self.seq
        return copy
