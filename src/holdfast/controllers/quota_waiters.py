"""Pods whose objects a quota refused, in the order in which they are tried again."""

from __future__ import annotations

from collections import defaultdict


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

    def leave(self, namespace: str, class_name: str, pod: str) -> list[str]:
        """Remove a pod from a line; return the first one of the rest if the pod waited there."""
        lines = self._lines.get(namespace, {})
        line = lines.get(class_name, {})
        if pod not in line:
            return []
        del line[pod]
        if line:
            return [next(iter(line))]
        del lines[class_name]
        if not lines:
            del self._lines[namespace]
        return []

    def leave_all(self, namespace: str, pod: str) -> list[str]:
        """Remove a pod from all lines; return the first ones of the rest."""
        classes = tuple(self._lines.get(namespace, ()))
        return [first for each in classes for first in self.leave(namespace, each, pod)]
