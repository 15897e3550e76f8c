"""A cluster made of objects: the world they add up to, and the pods one can ask about."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.api.workloads import SYSTEM_PRIORITIES, PriorityClass
from holdfast.cli.objects import Manifest, blame, read_object
from holdfast.engine.explanation import explain
from holdfast.engine.profile import Profile
from holdfast.errors import BadRequest
from holdfast.framework.extender import ExtenderConfig
from holdfast.framework.world import World
from holdfast.plugins import default_profiles

log = logging.getLogger(__name__)
built_in_profiles = cache(default_profiles)
_ORDER = {"Namespace": 0, "Node": 0, "Pod": 2}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A world without the pod that is asked about, and that pod."""

    world: World
    pod: Pod
    stands_in: bool = False
    """It is no real pod but stands for a reservation."""

    def explain(
        self,
        profiles: Mapping[str, Profile],
        now: float,
        *,
        preempt: bool = False,
        extenders: Sequence[ExtenderConfig] = (),
    ) -> dict[str, Any]:
        """Decide for the pod, with the profile of its scheduler's name.

        Extenders are not asked, but those that would be are named.
        """
        name = self.pod.spec.scheduler_name or "default-scheduler"
        profile = profiles.get(name)
        if profile is None:
            raise BadRequest(
                f'pod "{self.pod.key}": spec.schedulerName: no profile is named "{name}"; '
                f"there are {', '.join(profiles)}"
            )
        self.world.nominations.keep_schedulers(profiles)
        answer = explain(
            profile, self.pod, self.world, now, preempt=preempt, stands_in=self.stands_in
        )
        pod_info = self.world.pod_info(self.pod)
        silent = [e.url_prefix for e in extenders if e.affects_decisions and e.interested(pod_info)]
        return answer | ({"extendersNotAsked": silent} if silent else {})


def read_snapshot(documents: Iterable[Manifest], pod: str) -> Snapshot:
    """Read every document and put all objects but the pod into a world."""
    known: dict[tuple[str, str], tuple[Object, Manifest]] = {}
    for document in documents:
        obj = read_object(document)
        if obj is not None:
            known[obj.kind, obj.key] = (obj, document)  # of two versions the later one counts
    return _assemble(known.values(), pod)


def snapshot_of(objects: Iterable[Object], pod: str) -> Snapshot:
    """Put objects that a server told us into a world; as in the scheduler, odd ones are left out.

    A file is somebody's to mend, a cluster may be somebody else's.
    """
    return _assemble(((obj, None) for obj in objects), pod)


def _assemble(found: Iterable[tuple[Object, Manifest | None]], pod: str) -> Snapshot:
    """Nodes go in first and pods last, whatever the order they were told in."""
    key = pod if "/" in pod else f"default/{pod}"
    world, wanted = _world(found, key)
    if wanted is None:
        raise BadRequest(f'pod "{key}" is not among the objects')
    if wanted.finished:
        raise BadRequest(f'pod "{key}" has finished ({wanted.status.phase}): it needs no node')
    return Snapshot(world, wanted)


def world_of(objects: Iterable[Object]) -> World:
    """Put objects that a server told us into a world; odd ones are left out."""
    return _world(((obj, None) for obj in objects), "")[0]


def _world(found: Iterable[tuple[Object, Manifest | None]], key: str) -> tuple[World, Pod | None]:
    """The world of all objects but the pod of that key, and that pod."""
    world = World()
    ordered = sorted(found, key=lambda pair: _ORDER.get(pair[0].kind, 1))
    priority_of = _Priorities(obj for obj, _ in ordered)
    wanted: Pod | None = None
    for obj, document in ordered:
        stored = priority_of.given_to(obj) if isinstance(obj, Pod) else obj
        try:
            if isinstance(stored, Pod) and stored.key == key:
                wanted = stored
                world.pod_info(wanted)  # so that what is wrong with it is said here
            else:
                world.upsert(stored)
        except (BadRequest, ValueError, TypeError) as fault:
            if document is not None:
                raise blame(document, fault) from fault
            if stored is wanted:
                raise
            log.warning("%s %s: %s; deciding without it", obj.kind, obj.key, fault)
    return world, wanted


class _Priorities:
    """What admission makes of priority class names, for pods that were never admitted."""

    def __init__(self, objects: Iterable[Object]) -> None:
        classes = [obj for obj in objects if isinstance(obj, PriorityClass)]
        self._classes = {c.name: c for c in classes}
        # There should be one; of several upstream takes the lowest.
        self._default = min(
            (c for c in classes if c.global_default), key=lambda c: c.value, default=None
        )

    def given_to(self, pod: Pod) -> Pod:
        """The pod with a priority; one that has it, or has no class to take it from, is as is."""
        spec = pod.spec
        if spec.priority is not None:
            return pod
        name = spec.priority_class_name
        found = self._classes.get(name) if name else self._default
        priority = found.value if found else SYSTEM_PRIORITIES.get(name)
        if priority is None:
            return pod
        policy = spec.preemption_policy or (found.preemption_policy if found else None)
        given = msgspec.structs.replace(spec, priority=priority, preemption_policy=policy)
        return msgspec.structs.replace(pod, spec=given)
