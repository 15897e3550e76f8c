"""A ResourceSlice as the allocator reads it: digested once per version of the slice."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from holdfast.api.devices import Counter, Device, DeviceAttribute, ResourceSlice
from holdfast.api.node import Node
from holdfast.api.node_selection import NodeTerms, compile_selector
from holdfast.api.pod import NodeSelector
from holdfast.api.quantity import Quantity
from holdfast.cel import CompileError, DeviceSelectors, EvaluationError, SelectableDevice

DeviceId = tuple[str, str, str]
"""Driver, pool, device: what an allocation result names."""
PoolId = tuple[str, str]
Counters = Mapping[str, Mapping[str, Quantity]]
"""Amounts by counter set and counter."""

_REMEMBERED_ANSWERS = 256


@lru_cache(maxsize=1024)
def _terms(selector: NodeSelector) -> NodeTerms:
    return compile_selector(selector)


def reaches(
    node: Node, name: str | None, all_nodes: bool | None, selector: NodeSelector | None
) -> bool:
    """Tell whether a node selection includes the node; one that says nothing includes none."""
    if name:
        return name == node.name
    if all_nodes:
        return True
    return selector is not None and _terms(selector).matches(node.metadata.labels, node.name)


class DeviceCandidate:
    """One device of one slice, with what selectors said about it so far."""

    __slots__ = ("__weakref__", "_answers", "_subject", "consumes", "device", "id", "slice")

    def __init__(self, slice_: ResourceSlice, device: Device) -> None:
        spec = slice_.spec
        self.slice = slice_
        self.device = device
        self.id: DeviceId = (spec.driver, spec.pool.name, device.name)
        self.consumes = _consumption(device)
        self._subject: SelectableDevice | None = None
        self._answers: dict[str, bool | EvaluationError] = {}

    def __repr__(self) -> str:
        return f"DeviceCandidate({'/'.join(self.id)})"

    @property
    def shareable(self) -> bool:
        """Whether several claims may hold the device at once."""
        return bool(self.device.allow_multiple_allocations)

    def on_node(self, node: Node) -> bool:
        """Tell whether the device itself can be reached (its slice already can)."""
        if not self.slice.spec.per_device_node_selection:
            return True
        device = self.device
        return reaches(node, device.node_name, device.all_nodes, device.node_selector)

    def selected_by(self, expression: str, selectors: DeviceSelectors) -> bool:
        """Evaluate a selector, once; raises CompileError or EvaluationError."""
        answer = self._answers.get(expression)
        if answer is None:
            if len(self._answers) >= _REMEMBERED_ANSWERS:
                self._answers.clear()
            answer = self._answers[expression] = self._evaluate(expression, selectors)
        if isinstance(answer, EvaluationError):
            raise answer.with_traceback(None)
        return answer

    def _evaluate(self, expression: str, selectors: DeviceSelectors) -> bool | EvaluationError:
        if self._subject is None:
            self._subject = selectors.subject(self.id[0], self.device)
        try:
            return selectors.compile(expression).matches(self._subject)
        except CompileError:
            raise
        except EvaluationError as failure:
            return failure

    def attribute(self, name: str) -> DeviceAttribute | None:
        """Look up a fully qualified attribute; the driver's own domain may be left out."""
        attributes = self.device.attributes
        if (found := attributes.get(name)) is not None:
            return found
        domain, _, identifier = name.partition("/")
        return attributes.get(identifier) if domain == self.id[0] else None


class SliceFacts:
    """One slice: its devices as candidates, its counters, and where it can be reached."""

    __slots__ = ("candidates", "counters", "name", "node_name", "pool", "slice")

    def __init__(self, slice_: ResourceSlice) -> None:
        spec = slice_.spec
        self.slice = slice_
        self.name = slice_.name
        self.pool: PoolId = (spec.driver, spec.pool.name)
        self.candidates = tuple(DeviceCandidate(slice_, device) for device in spec.devices)
        self.counters = tuple(
            (entry.name, _amounts(entry.counters)) for entry in spec.shared_counters
        )
        # Counters concern the whole pool, wherever their slice lives.
        self.node_name = "" if self.counters else (spec.node_name or "")

    @property
    def generation(self) -> int:
        """Which edition of the pool this is part of."""
        return self.slice.spec.pool.generation

    def relevant(self, node: Node) -> bool:
        """Tell whether anything in the slice matters to the node."""
        if self.counters:
            return True
        spec = self.slice.spec
        if spec.per_device_node_selection:
            return any(candidate.on_node(node) for candidate in self.candidates)
        return reaches(node, spec.node_name, spec.all_nodes, spec.node_selector)


def _consumption(device: Device) -> Counters:
    return {entry.counter_set: _amounts(entry.counters) for entry in device.consumes_counters}


def _amounts(counters: Mapping[str, Counter]) -> dict[str, Quantity]:
    return {name: Quantity.parse(counter.value) for name, counter in counters.items()}
