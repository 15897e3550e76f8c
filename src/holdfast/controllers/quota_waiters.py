"""Pods whose objects a quota refused, in the order in which they are tried again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection


class QuotaWaiters:
    """A line of pods for each namespace and class, in the order of their refusals.

    When there may be room only the first of each line is tried, and after its success the next: a
    thousand waiting pods do not send a thousand requests for one free place.
    """

    def __init__(self) -> None:
        self._lines: defaultdict[str, dict[str, dict[str, None]]] = defaultdict(dict)

    def wait(self, namespace: str, class_name: str, pod: str) -> None:
        """Add a pod, by key, to the end of a line, unless it waits there."""
        self._lines[namespace].setdefault(class_name, {})[pod] = None

    def first(self, namespace: str) -> list[str]:
        """Return the first pod of each line of a namespace."""
        return [next(iter(line)) for line in self._lines.get(namespace, {}).values()]

    def leave(self, namespace: str, pod: str, *, but: Collection[str] = ()) -> list[str]:
        """Remove a pod from all lines but those of some classes; return the next of each line."""
        lines = self._lines.get(namespace, {})
        following: list[str] = []
        for class_name in [name for name in lines if name not in but and pod in lines[name]]:
            del lines[class_name][pod]
            if lines[class_name]:
                following.append(next(iter(lines[class_name])))
            else:
                del lines[class_name]
        if not lines:
            self._lines.pop(namespace, None)
        return following
