"""Build a world from API objects, and explain the decision for one pod in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from holdfast.api.devices import DeviceTaintRule
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.cli.objects import Manifest, read_object
from holdfast.cli.pod_progress import claims_in_preparation, missing_device_classes
from holdfast.cli.world_building import DEFAULT_GATES, world_without
from holdfast.runtime.errors import BadRequest
from holdfast.runtime.feature_gates import NEWEST, FeatureGates
from holdfast.scheduling.engine.explanation import explain
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.extender import ExtenderConfig
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.resource_policies.policy_usage import usage_of

built_in_profiles = cache(default_profiles)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A world without the pod to schedule, and that pod."""

    world: World
    pod: Pod
    is_reserve_pod: bool = False
    """Whether the pod is the reserve pod of a reservation."""

    def explain(
        self,
        profiles: Mapping[str, Profile],
        now: float,
        *,
        preempt: bool = False,
        extenders: Sequence[ExtenderConfig] = (),
    ) -> dict[str, Any]:
        """Schedule the pod with the profile of its scheduler name and return the explanation.

        Extenders are not called; the URLs of the skipped ones are listed.
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
            profile, self.pod, self.world, now, preempt=preempt, is_reserve_pod=self.is_reserve_pod
        )
        pod_info = self.world.pod_info(self.pod)
        skipped = [
            e.url_prefix for e in extenders if e.affects_decisions and e.interested(pod_info)
        ]
        return (
            answer
            | _policies(self.world, pod_info)
            | claims_in_preparation(self.world, self.pod)
            | missing_device_classes(self.world, pod_info)
            | ({"extendersNotAsked": skipped} if skipped else {})
        )


def _policies(world: World, pod_info: PodInfo) -> dict[str, Any]:
    """Return the resource policies that select a pod, with the pods that count in each unit."""
    governing = world.policies.governing(pod_info)
    if not governing:
        return {}
    nodes = [node for node in world.nodes.nodes if node is not None]
    pods = [info.pod for info, _row in world.nodes.pods() if info.uid != pod_info.uid]
    policies = []
    for policy in governing:
        group, usage = policy.group_key(pod_info.labels), usage_of(policy, nodes, pods)
        units = [
            {
                "name": unit.unit.name,
                "priority": unit.unit.priority,
                "pods": len(unit.group(group).pods),
                "maxCount": unit.unit.max_count,
            }
            for unit in usage.units
        ]
        policies.append({"policy": policy.key, "units": units, "outside": len(usage.outside)})
    return {"resourcePolicies": policies}


def read_snapshot(
    documents: Iterable[Manifest], pod: str, gates: FeatureGates = DEFAULT_GATES
) -> Snapshot:
    """Decode every document and build a world of all objects except the pod."""
    known: dict[tuple[type[Object], str], tuple[Object, Manifest]] = {}
    for document in documents:
        obj = read_object(document)
        if obj is not None:
            known[type(obj), obj.key] = (obj, document)  # the last of several versions counts
    if gates.release is None and any(_is_rule_in_v1(obj) for obj, _ in known.values()):
        # Only these releases serve rules in v1; without this, their taints were silently left out.
        gates = gates.of_release(NEWEST)
    return _assemble(known.values(), pod, gates)


def _is_rule_in_v1(obj: Object) -> bool:
    return isinstance(obj, DeviceTaintRule) and obj.api_version.endswith("/v1")


def snapshot_from_objects(
    objects: Iterable[Object], pod: str, gates: FeatureGates = DEFAULT_GATES
) -> Snapshot:
    """Build a snapshot of objects listed from an API server.

    Invalid objects are ignored with a warning, as in the scheduler. In files they are errors.
    """
    return _assemble(((obj, None) for obj in objects), pod, gates)


def _assemble(
    objects_and_manifests: Iterable[tuple[Object, Manifest | None]], pod: str, gates: FeatureGates
) -> Snapshot:
    """Build the world and find the pod; raise BadRequest if it is missing or has finished."""
    key = pod if "/" in pod else f"default/{pod}"
    world, wanted = world_without(objects_and_manifests, key, gates)
    if wanted is None:
        raise BadRequest(f'pod "{key}" is not among the objects')
    if wanted.finished:
        raise BadRequest(f'pod "{key}" has finished ({wanted.status.phase}) and needs no node')
    return Snapshot(world, wanted)
