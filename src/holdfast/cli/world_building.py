"""Build a world, the scheduler's view of the cluster, from API objects."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from holdfast.api.devices import DeviceTaintRule
from holdfast.api.meta import Object
from holdfast.api.pod import Pod, without_claims
from holdfast.api.workloads import SYSTEM_PRIORITIES, PriorityClass
from holdfast.cli.objects import Manifest, object_error
from holdfast.runtime.errors import BadRequest
from holdfast.runtime.feature_gates import Feature, FeatureGates
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.features import Features
from holdfast.state.devices.inventory import Inventory

log = logging.getLogger(__name__)
DEFAULT_GATES = FeatureGates()
_ORDER = {"Namespace": 0, "Node": 0, "Pod": 2}


def build_world(objects: Iterable[Object], gates: FeatureGates = DEFAULT_GATES) -> World:
    """Build a world of objects listed from an API server; invalid ones are ignored."""
    return world_without(((obj, None) for obj in objects), "", gates)[0]


def world_without(
    objects_and_manifests: Iterable[tuple[Object, Manifest | None]], key: str, gates: FeatureGates
) -> tuple[World, Pod | None]:
    """Return the world of all objects except the pod with this key, and that pod.

    Problems of objects from files are errors; others are ignored.
    """
    nodes = NodeTable()
    world = World(nodes, devices=Inventory(nodes, Features.of(gates)))
    devices = gates.enabled(Feature.DYNAMIC_RESOURCE_ALLOCATION)
    rules = gates.enabled(Feature.DEVICE_TAINT_RULES)
    ordered = sorted(objects_and_manifests, key=lambda pair: _ORDER.get(pair[0].kind, 1))
    priority_of = _Priorities(obj for obj, _ in ordered)
    wanted: Pod | None = None
    for obj, document in ordered:
        if isinstance(obj, DeviceTaintRule) and not rules:
            continue
        stored = priority_of.with_priority(obj) if isinstance(obj, Pod) else obj
        if isinstance(stored, Pod) and not devices:
            stored = without_claims(stored)
        try:
            if isinstance(stored, Pod) and stored.key == key:
                wanted = stored
                world.pod_info(wanted)  # raises here if the pod is invalid
            else:
                world.upsert(stored)
                if isinstance(stored, world.classic.takes):
                    world.classic.use_group_of(stored)
        except (BadRequest, ValueError, TypeError) as fault:
            if document is not None:
                raise object_error(document, fault) from fault
            if stored is wanted:
                raise
            log.warning("%s %s: %s; the object is ignored", obj.kind, obj.key, fault)
    return world, wanted


class _Priorities:
    """Set priorities from priority classes, as admission does, for pods that were not admitted."""

    def __init__(self, objects: Iterable[Object]) -> None:
        classes = [obj for obj in objects if isinstance(obj, PriorityClass)]
        self._classes = {c.name: c for c in classes}
        # There should be one default class; upstream takes the lowest of several.
        self._default = min(
            (c for c in classes if c.global_default), key=lambda c: c.value, default=None
        )

    def with_priority(self, pod: Pod) -> Pod:
        """Return the pod with the priority of its class, if it has none yet."""
        spec = pod.spec
        if spec.priority is not None:
            return pod
        name = spec.priority_class_name
        priority_class = self._classes.get(name) if name else self._default
        priority = priority_class.value if priority_class else SYSTEM_PRIORITIES.get(name)
        if priority is None:
            return pod
        policy = spec.preemption_policy or (
            priority_class.preemption_policy if priority_class else None
        )
        resolved = msgspec.structs.replace(spec, priority=priority, preemption_policy=policy)
        return msgspec.structs.replace(pod, spec=resolved)
