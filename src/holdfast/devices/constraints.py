"""What the devices of a claim must have in common, or must not.

Both kinds only ever get stricter as devices are added, so a search may stop at the first no.
Values carry their type: an int never equals a string. In list mode a scalar counts as a list of
one; match then means that one value is common to all, distinct that no two devices share any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.api.devices import DeviceAttribute, DeviceConstraint
from holdfast.devices.slices import DeviceCandidate

Values = frozenset[tuple[str, Any]]


def values_of(attribute: DeviceAttribute, *, lists: bool) -> Values:
    """The typed values of an attribute; none when it has no value we know."""
    if lists:
        for kind in ("int", "bool", "string", "version"):
            if several := getattr(attribute, f"{kind}s"):
                return frozenset((kind, value) for value in several)
    for kind, value in (
        ("string", attribute.string), ("int", attribute.int_), ("bool", attribute.bool_),
        ("version", attribute.version),
    ):  # fmt: skip
        if value is not None:
            return frozenset({(kind, value)})
    return frozenset()


class AllocationConstraint(Protocol):
    """Accepts devices one by one; ``remove`` takes back the latest accepted."""

    def add(self, request: str, sub: str, candidate: DeviceCandidate) -> bool:
        """Accept the device for the request, or say no and stay as before."""
        ...

    def remove(self, request: str, sub: str) -> None:
        """Forget the device accepted last for this request."""
        ...


@dataclass(slots=True)
class _Attribute:
    """What both kinds share: which requests are meant and which attribute is looked at."""

    name: str
    requests: frozenset[str]
    lists: bool
    _accepted: list[Values] = field(default_factory=list)

    def _applies(self, request: str, sub: str) -> bool:
        return not self.requests or bool(self.requests & {request, f"{request}/{sub}"})

    def add(self, request: str, sub: str, candidate: DeviceCandidate) -> bool:
        if not self._applies(request, sub):
            return True
        attribute = candidate.attribute(self.name)
        values = frozenset() if attribute is None else values_of(attribute, lists=self.lists)
        kept = self._accept(values) if values else None
        if kept is None:
            return False
        self._accepted.append(kept)
        return True

    def remove(self, request: str, sub: str) -> None:
        if self._applies(request, sub):
            self._accepted.pop()

    def _accept(self, values: Values) -> Values | None:
        raise NotImplementedError


class MatchAttribute(_Attribute):
    """All devices share a value; what is kept is what they all share so far."""

    __slots__ = ()

    def _accept(self, values: Values) -> Values | None:
        common = values & self._accepted[-1] if self._accepted else values
        return common or None


class DistinctAttribute(_Attribute):
    """No two devices share a value."""

    __slots__ = ()

    def _accept(self, values: Values) -> Values | None:
        return None if any(values & earlier for earlier in self._accepted) else values


def build(constraint: DeviceConstraint, *, lists: bool) -> AllocationConstraint | None:
    """Make the constraint ready for a search; None for a kind we do not know."""
    requests = frozenset(constraint.requests)
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.match_attribute, requests, lists)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint.distinct_attribute, requests, lists)
    return None
