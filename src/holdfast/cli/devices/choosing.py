"""Choose the devices to list, and describe what is wrong with the devices of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from holdfast.api.devices import DeviceTaintRule
from holdfast.api.meta import Object
from holdfast.api.node import Node, Taint
from holdfast.cli.table import counted, join_names
from holdfast.cli.world_building import build_world
from holdfast.runtime.errors import Refused
from holdfast.runtime.feature_gates import Feature, FeatureGates
from holdfast.state.devices.device_map import (
    MappedDevice,
    MappedPool,
    holders_by_device,
    map_devices,
)
from holdfast.state.devices.errors import AllocationError
from holdfast.state.devices.inventory import Inventory
from holdfast.state.devices.matching import Matcher
from holdfast.state.devices.requests import any_of_class
from holdfast.state.devices.slice_tracker import taints_with_rules

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects the devices to list; "" and False select all."""

    node: str = ""
    driver: str = ""
    device_class: str = ""
    namespace: str = ""
    free: bool = False


@dataclass(frozen=True, slots=True)
class DeviceListing:
    """The chosen devices by pool, and what is wrong with the devices of the cluster."""

    pools: list[MappedPool]
    problems: list[str]
    rules: tuple[DeviceTaintRule, ...] = ()
    left_out: int = 0
    """The number of devices that the flags left out."""

    def taints_of(self, device: MappedDevice) -> list[tuple[Taint, str]]:
        """Return a device's taints with the names of the DeviceTaintRules that add them, or ""."""
        return taints_with_rules(device.id, device.candidate.device.taints, self.rules)


def choose(objects: Sequence[Object], gates: FeatureGates, which: Filter) -> DeviceListing:
    """Return the devices to list, and the problems of all devices of the driver, node and class."""
    # Rules are listed if they are served: the gates of another cluster's scheduler are unknown.
    with_rules = FeatureGates({**gates.chosen, Feature.DEVICE_TAINT_RULES: True})
    inventory: Inventory = build_world(objects, with_rules).devices
    nodes = {obj.name: obj for obj in objects if isinstance(obj, Node)}
    every = map_devices(inventory, nodes.values())
    chosen = [pool for pool in every if which.driver in ("", pool.id[0])]
    if which.node:
        node = _required(nodes, which.node, "node")
        chosen = _keep(chosen, lambda device: device.is_available_on(node))
    problems: list[str] = []
    if which.device_class:
        is_of_class = _ClassMembership(inventory, which.device_class)
        chosen = _keep(chosen, is_of_class)
        problems += is_of_class.problems()
    problems += (*_pool_problems(chosen), *_missing_nodes(chosen, nodes))
    if not which.node and not which.device_class:
        problems += _unlisted_devices(every, inventory, which.driver)
    if which.namespace:
        chosen = _keep(
            chosen, lambda device: any(h.claim.namespace == which.namespace for h in device.holders)
        )
    if which.free:
        chosen = _keep(chosen, lambda device: device.can_be_allocated)
    rules = tuple(obj for obj in objects if isinstance(obj, DeviceTaintRule))
    return DeviceListing(chosen, problems, rules, _count(every) - _count(chosen))


def _keep(pools: Iterable[MappedPool], wanted: Callable[[MappedDevice], bool]) -> list[MappedPool]:
    """Keep the devices to list, and the pools that have any."""
    kept = [replace(p, devices=tuple(d for d in p.devices if wanted(d))) for p in pools]
    return [pool for pool in kept if pool.devices]


def _count(pools: Iterable[MappedPool]) -> int:
    return sum(len(pool.devices) for pool in pools)


class _ClassMembership:
    """Whether a class selects a device; a device on which its selector fails is not selected."""

    def __init__(self, inventory: Inventory, name: str) -> None:
        device_class = _required(inventory.classes.by_name, name, "device class")
        self._matcher = Matcher((), inventory.selectors, inventory.features)
        self._alternative = any_of_class(device_class)
        self._failures: Counter[str] = Counter()

    def __call__(self, device: MappedDevice) -> bool:
        try:
            return self._matcher.selected(self._alternative, device.candidate)
        except AllocationError as failure:
            self._failures[failure.message] += 1
            return False

    def problems(self) -> list[str]:
        """Describe the errors of the selectors."""
        return [
            f"{message} (on {counted(count, 'device')}): no pod that asks for the class can be "
            "scheduled where it fails"
            for message, count in sorted(self._failures.items())
        ]


def _pool_problems(pools: Iterable[MappedPool]) -> Iterator[str]:
    for pool in pools:
        if pool.problem:
            where = f" on {join_names(pool.problem_nodes)}" if pool.problem_nodes else ""
            name = "/".join(pool.id)
            yield f"pool {name} is {pool.problem}; its devices are not allocated{where}"


def _unlisted_devices(
    pools: Iterable[MappedPool], inventory: Inventory, driver: str
) -> Iterator[str]:
    """Describe allocated devices that are no longer in a slice."""
    known = {device.id for pool in pools for device in pool.devices}
    for device, holders in sorted(holders_by_device(inventory.claims.all()).items()):
        if device not in known and driver in ("", device[0]):
            claims = join_names([holder.claim.key for holder in holders])
            yield f"device {'/'.join(device)} is held by {claims}, but no slice lists it"


def _missing_nodes(pools: Iterable[MappedPool], nodes: Mapping[str, Node]) -> Iterator[str]:
    """Describe devices for nodes that do not exist."""
    missing: Counter[str] = Counter()
    for pool in pools:
        for device in pool.devices:
            name = device.node_name
            if name and name not in nodes:
                missing[name] += 1
    if missing:
        names, count = join_names(list(missing)), counted(sum(missing.values()), "device")
        they = f"node {names} does" if len(missing) == 1 else f"nodes {names} do"
        yield f"{they} not exist, but slices list {count} there"


def _required(by_name: Mapping[str, T], name: str, what: str) -> T:
    if name not in by_name:
        known = f"there are {join_names(list(by_name))}" if by_name else "there are none"
        raise Refused(f'there is no {what} "{name}": {known}')
    return by_name[name]
