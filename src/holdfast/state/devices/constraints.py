"""Constraints of claims: attributes that must match, or be distinct, over the allocated devices.

Adding a device never makes another one acceptable, so a search may stop at the first rejection.
Values are compared with their type: an int never equals a string. With list attributes a scalar
counts as a list of one; match then requires one value common to all; distinct requires that no two
devices share a value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.api.devices import DeviceAttribute, DeviceConstraint
from holdfast.state.devices.slices import DeviceCandidate

Values = frozenset[tuple[str, Any]]


def values_of(attribute: DeviceAttribute, *, lists: bool) -> Values:
    """Return the typed values of an attribute; empty if it has no known value."""
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
    """Accepts devices one by one; ``remove`` undoes the latest ``add``."""

    def add(self, request: str, sub: str, candidate: DeviceCandidate) -> bool:
        """Add a device for the request; return False and change nothing if it violates this."""
        ...

    def remove(self, request: str, sub: str) -> None:
        """Remove the device that was added last for this request."""
        ...

    @property
    def label(self) -> str:
        """The field and the attribute, for messages."""
        ...

    def conflict(self, candidate: DeviceCandidate) -> str:
        """Describe why ``add`` returns False for a device."""
        ...


@dataclass(slots=True)
class _Attribute:
    """Common part: the attribute's name and the requests that the constraint applies to."""

    name: str
    requests: frozenset[str]
    lists: bool
    _accepted: list[Values] = field(default_factory=list)

    def _applies(self, request: str, sub: str) -> bool:
        return not self.requests or bool(self.requests & {request, f"{request}/{sub}"})

    def add(self, request: str, sub: str, candidate: DeviceCandidate) -> bool:
        if not self._applies(request, sub):
            return True
        values = self._values(candidate)
        accepted = self._accept(values) if values else None
        if accepted is None:
            return False
        self._accepted.append(accepted)
        return True

    def conflict(self, candidate: DeviceCandidate) -> str:
        values = self._values(candidate)
        if not values:
            return f"it has no attribute {self.name}"
        others = frozenset[tuple[str, Any]]().union(*self._accepted)
        return f"its value is {_text(values)}, devices chosen before have {_text(others)}"

    def _values(self, candidate: DeviceCandidate) -> Values:
        attribute = candidate.attribute(self.name)
        return frozenset() if attribute is None else values_of(attribute, lists=self.lists)

    def remove(self, request: str, sub: str) -> None:
        if self._applies(request, sub):
            self._accepted.pop()

    def _accept(self, values: Values) -> Values | None:
        raise NotImplementedError


class MatchAttribute(_Attribute):
    """All devices share a value; ``_accepted`` holds the values common to all so far."""

    __slots__ = ()

    @property
    def label(self) -> str:
        """The field and the attribute, for messages."""
        return f"matchAttribute {self.name}"

    def _accept(self, values: Values) -> Values | None:
        common = values & self._accepted[-1] if self._accepted else values
        return common or None


class DistinctAttribute(_Attribute):
    """No two devices share a value."""

    __slots__ = ()

    @property
    def label(self) -> str:
        """The field and the attribute, for messages."""
        return f"distinctAttribute {self.name}"

    def _accept(self, values: Values) -> Values | None:
        return None if any(values & earlier for earlier in self._accepted) else values


def _text(values: Values) -> str:
    return ", ".join(sorted(str(value) for _, value in values))


def build(constraint: DeviceConstraint, *, lists: bool) -> AllocationConstraint | None:
    """Build a constraint for one search; None if its type is unknown."""
    requests = frozenset(constraint.requests)
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.match_attribute, requests, lists)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint.distinct_attribute, requests, lists)
    return None
