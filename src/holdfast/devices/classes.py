"""Device classes by name, and which class serves an extended resource (KEP-5004)."""

from __future__ import annotations

from holdfast.api.devices import DeviceClass

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class can be asked for as an extended resource under this prefix and its name."""


class Classes:
    """All classes; what serves a name is always worked out from the full set."""

    __slots__ = ("_explicit", "by_name")

    def __init__(self) -> None:
        self.by_name: dict[str, DeviceClass] = {}
        self._explicit: dict[str, str] = {}

    def upsert(self, device_class: DeviceClass) -> None:
        """Take in a class, new or changed."""
        self.by_name[device_class.name] = device_class
        self._resolve()

    def delete(self, name: str) -> None:
        """Let a class go; another of the same resource name then serves it."""
        if self.by_name.pop(name, None) is not None:
            self._resolve()

    def serving(self, resource: str) -> str | None:
        """The class that serves an extended resource, or None.

        Of several classes with one explicit name the newest serves; made in the same second,
        the first by name. The implicit name is valid for a class with an explicit one too.
        """
        if resource.startswith(IMPLICIT_PREFIX):
            name = resource[len(IMPLICIT_PREFIX) :]
            return name if name in self.by_name else None
        return self._explicit.get(resource)

    def fork(self) -> Classes:
        """An independent copy."""
        copy = Classes()
        copy.by_name, copy._explicit = dict(self.by_name), dict(self._explicit)
        return copy

    def _resolve(self) -> None:
        # Sorted so that the serving class comes last and overwrites the others. Timestamps are
        # written in one form only, so their texts sort as their times.
        by_name = sorted(self.by_name.values(), key=lambda c: c.name, reverse=True)
        self._explicit = {
            c.spec.extended_resource_name: c.name
            for c in sorted(by_name, key=lambda c: c.metadata.creation_timestamp or "")
            if c.spec.extended_resource_name
        }
