"""ResourceSlices as the allocator reads them, parsed once per version of a slice."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from holdfast.api.cel import DeviceSelectors, EvaluationError, SelectableDevice
from holdfast.api.devices import Counter, Device, DeviceAttribute, ResourceSlice
from holdfast.api.node import Node
from holdfast.api.node_selection import NodeTerms, compile_selector
from holdfast.api.pod import NodeSelector
from holdfast.api.quantity import Quantity

DeviceId = tuple[str, str, str]
"""Driver, pool and device name."""
PoolId = tuple[str, str]
NodeSelection = tuple[str | None, bool | None, NodeSelector | None]
"""The name of a node, whether all nodes are selected, and a selector; one of them is set."""
ALL_NODES = ""
"""Stands for all nodes, where names of nodes are expected."""
Counters = Mapping[str, Mapping[str, Quantity]]
"""Amounts by counter set and counter name."""

_MAX_CACHED_RESULTS = 256


@lru_cache(maxsize=1024)
def _terms(selector: NodeSelector) -> NodeTerms:
    return compile_selector(selector)


def includes_node(
    node: Node, name: str | None, all_nodes: bool | None, selector: NodeSelector | None
) -> bool:
    """Return whether a node selection includes the node; an empty selection includes none."""
    if name:
        return name == node.name
    if all_nodes:
        return True
    return selector is not None and _terms(selector).matches(node.metadata.labels, node.name)


class DeviceCandidate:
    """One device of a slice, with the cached results of selectors."""

    __slots__ = (
        "__weakref__",
        "_results",
        "_selectable",
        "consumed_counters",
        "device",
        "id",
        "slice",
    )

    def __init__(self, slice_: ResourceSlice, device: Device) -> None:
        spec = slice_.spec
        self.slice = slice_
        self.device = device
        self.id: DeviceId = (spec.driver, spec.pool.name, device.name)
        self.consumed_counters = _consumption(device)
        self._selectable: SelectableDevice | None = None
        self._results: dict[str, bool | EvaluationError] = {}

    def __repr__(self) -> str:
        return f"DeviceCandidate({'/'.join(self.id)})"

    @property
    def shareable(self) -> bool:
        """Whether the device can be allocated to several claims."""
        return bool(self.device.allow_multiple_allocations)

    def is_available_on(self, node: Node) -> bool:
        """Return whether the device is available on the node; its slice is known to be."""
        if not self.slice.spec.per_device_node_selection:
            return True
        return includes_node(node, *self.node_selection)

    @property
    def node_selection(self) -> NodeSelection:
        """Which nodes can use the device: by the device itself, or by its slice."""
        spec = self.slice.spec
        owner = self.device if spec.per_device_node_selection else spec
        return owner.node_name, owner.all_nodes, owner.node_selector

    @property
    def node_name(self) -> str:
        """The node that can use the device; ALL_NODES if nodes are not selected by name."""
        return self.node_selection[0] or ALL_NODES

    def selected_by(self, expression: str, selectors: DeviceSelectors, owner: str = "") -> bool:
        """Evaluate a selector, with a cache; raise CompileError or EvaluationError.

        The latest results are kept here; ``selectors`` keep those of each owner.
        """
        result = self._results.get(expression)
        if result is None:
            if len(self._results) >= _MAX_CACHED_RESULTS:
                self._results.clear()
            result = self._results[expression] = self._evaluate(expression, selectors, owner)
        if isinstance(result, EvaluationError):
            raise result.with_traceback(None)
        return result

    def _evaluate(
        self, expression: str, selectors: DeviceSelectors, owner: str
    ) -> bool | EvaluationError:
        selector = selectors.compile(expression, owner)

        def evaluate() -> bool | EvaluationError:
            if self._selectable is None:
                self._selectable = selectors.selectable_device(self.id[0], self.device)
            selectors.work += selector.work_of(self._selectable)
            try:
                return selector.matches(self._selectable)
            except EvaluationError as failure:
                return failure

        return selectors.shared_results.get(
            selector, self.id[0], self.device, evaluate, owner=owner, identity=self
        )

    def attribute(self, name: str) -> DeviceAttribute | None:
        """Return an attribute by its qualified name; the slice may omit the driver's own domain."""
        attributes = self.device.attributes
        if (attribute := attributes.get(name)) is not None:
            return attribute
        domain, _, identifier = name.partition("/")
        return attributes.get(identifier) if domain == self.id[0] else None


class SliceInfo:
    """One slice: its devices as candidates, its counters and its nodes.

    ``node_names`` are the nodes that can use its devices: ALL_NODES if it does not list them by
    name. A slice with counters has none: its counters belong to the devices of the pool.
    """

    __slots__ = ("candidates", "counters", "name", "node_names", "pool", "slice")

    def __init__(self, slice_: ResourceSlice) -> None:
        spec = slice_.spec
        self.slice = slice_
        self.name = slice_.name
        self.pool: PoolId = (spec.driver, spec.pool.name)
        self.candidates = tuple(DeviceCandidate(slice_, device) for device in spec.devices)
        self.counters = tuple(
            (entry.name, _amounts(entry.counters)) for entry in spec.shared_counters
        )
        self.node_names: frozenset[str] = frozenset()
        if not self.counters:
            self.node_names = frozenset(
                (c.node_name for c in self.candidates)
                if spec.per_device_node_selection
                else (spec.node_name or ALL_NODES,)
            )

    @property
    def generation(self) -> int:
        """The generation of the pool that this slice belongs to."""
        return self.slice.spec.pool.generation

    def is_relevant_for(self, node: Node) -> bool:
        """Return whether the slice has counters, or devices for the node."""
        if self.counters:
            return True
        spec = self.slice.spec
        if spec.per_device_node_selection:
            return any(candidate.is_available_on(node) for candidate in self.candidates)
        return includes_node(node, spec.node_name, spec.all_nodes, spec.node_selector)


def _consumption(device: Device) -> Counters:
    return {entry.counter_set: _amounts(entry.counters) for entry in device.consumes_counters}


def _amounts(counters: Mapping[str, Counter]) -> dict[str, Quantity]:
    return {name: Quantity.parse(counter.value) for name, counter in counters.items()}
