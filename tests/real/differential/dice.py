"""A seeded random generator with helpers for generating snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
Raw = dict[str, Any]


class Dice(Random):
    """A seeded generator."""

    def chance(self, likelihood: float) -> bool:
        return self.random() < likelihood

    def pick(self, *options: T) -> T:
        return self.choice(options)

    def some(self, options: Sequence[T], most: int | None = None) -> list[T]:
        """Return some of the options, each at most once, in their order."""
        count = self.randint(0, min(len(options), len(options) if most is None else most))
        return [options[i] for i in sorted(self.sample(range(len(options)), count))]

    def maybe(self, likelihood: float, **fields: Any) -> Raw:
        """Return all of the fields or none."""
        return fields if self.chance(likelihood) else {}


def identified(raw: Raw) -> Raw:
    """Set the uid of an object, as a server would."""
    meta = raw["metadata"]
    meta.setdefault("uid", f"{raw['kind']}-{meta.get('namespace', '')}-{meta['name']}".lower())
    return raw
