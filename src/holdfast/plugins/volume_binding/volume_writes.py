"""What is written to bind volumes, and how long to wait for it.

The scheduler only names: a volume is told its claim, a claim the node its volume is to be made
for. Binding itself is the volume controller's and the provisioner's work, and the pod waits for it.
Nothing is taken back when it fails, for a volume half bound is the controller's to sort out.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api.decode import convert_object, json_values
from holdfast.api.meta import Object, ObjectReference
from holdfast.api.node import Node
from holdfast.api.scheme import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from holdfast.api.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.volumes import PodVolumes
from holdfast.columns.volumes.matching import is_bound_to, matches_node_affinity
from holdfast.errors import HoldfastError, NotFound
from holdfast.framework.plugin import ApiCall, ApiCalls

MERGE = "application/merge-patch+json"
POLL_SECONDS = 1.0
Progress = Generator[ApiCall, Any, bool]


class VolumesUnbound(HoldfastError):
    """The volumes were not bound: the pod is to be tried again."""


@dataclass(frozen=True, slots=True)
class VolumesToBind:
    """Volumes promised to a pod on a node, until all of them are bound."""

    pod: PodInfo
    node: Node
    assume: PodVolumes


def with_claim_ref(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """A volume as it is once it names the claim it is for."""
    meta = volume.metadata
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in meta.annotations:
        marks = {**meta.annotations, BOUND_BY_CONTROLLER: "yes"}
        meta = msgspec.structs.replace(meta, annotations=marks)
    kept = ObjectReference(
        api_version="v1", kind="PersistentVolumeClaim", namespace=claim.namespace, name=claim.name,
        uid=claim.uid, resource_version=claim.metadata.resource_version,
    )  # fmt: skip
    old = volume.spec.claim_ref
    if old is not None and (old.namespace, old.name, old.uid) == (kept.namespace, kept.name,
                                                                  kept.uid):  # fmt: skip
        kept = old
    spec = msgspec.structs.replace(volume.spec, claim_ref=kept)
    return msgspec.structs.replace(volume, metadata=meta, spec=spec)


def with_selected_node(claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    """A claim as it is once it names the node its volume is to be made for."""
    marks = {**claim.metadata.annotations, SELECTED_NODE: node}
    meta = msgspec.structs.replace(claim.metadata, annotations=marks)
    return msgspec.structs.replace(claim, metadata=meta)


def bind_volumes(waiting: VolumesToBind, timeout: int) -> ApiCalls:
    """Tell volumes and claims what they are for, then wait until all is bound."""
    for volume, _claim in waiting.assume.static_bindings:
        change = {"spec": {"claimRef": json_values(volume.spec.claim_ref)}}
        path = PERSISTENT_VOLUMES.path(name=volume.name)
        yield ApiCall("patch", path, _guarded(volume, change), MERGE)
    for claim in waiting.assume.dynamic_provisions:
        yield ApiCall("patch", _path(claim), _guarded(claim, {}), MERGE)
    # There is no clock here: the time limit is kept by counting.
    for _ in range(max(1, round(timeout / POLL_SECONDS))):
        yield ApiCall("sleep", "", POLL_SECONDS)
        if (yield from _all_bound(waiting)):
            return
    raise VolumesUnbound("binding volumes: context deadline exceeded")


def _all_bound(waiting: VolumesToBind) -> Progress:
    pod = waiting.pod
    try:
        yield ApiCall("get", PODS.path(pod.namespace, pod.name))
    except NotFound as gone:
        raise VolumesUnbound(f"binding volumes: pod does not exist any more: {gone}") from gone
    for volume, claim in waiting.assume.static_bindings:
        if not (yield from _is_kept(waiting, volume, claim)):
            return False
    for claim in waiting.assume.dynamic_provisions:
        if not (yield from _is_provisioned(waiting, claim)):
            return False
    return True


def _is_kept(
    waiting: VolumesToBind, volume: PersistentVolume, claim: PersistentVolumeClaim
) -> Progress:
    try:
        raw = yield ApiCall("get", PERSISTENT_VOLUMES.path(name=volume.name))
        now = convert_object(raw, PersistentVolume)
        raw = yield ApiCall("get", _path(claim))
    except NotFound as gone:
        raise VolumesUnbound(f"binding volumes: failed to check binding: {gone}") from gone
    _check_reach(waiting, now)
    if now.spec.claim_ref is None or not now.spec.claim_ref.uid:
        raise VolumesUnbound(f'binding volumes: ClaimRef got reset for pv "{now.name}"')
    return convert_object(raw, PersistentVolumeClaim).fully_bound


def _is_provisioned(waiting: VolumesToBind, claim: PersistentVolumeClaim) -> Progress:
    try:
        raw = yield ApiCall("get", _path(claim))
    except NotFound as gone:
        words = f"binding volumes: failed to check provisioning pvc: {gone}"
        raise VolumesUnbound(words) from gone
    now = convert_object(raw, PersistentVolumeClaim)
    if not now.metadata.annotations:
        raise VolumesUnbound(f'binding volumes: selectedNode annotation reset for PVC "{now.name}"')
    if now.selected_node != waiting.node.name:
        # So a provisioner says that it cannot do it here.
        raise VolumesUnbound(f'binding volumes: provisioning failed for PVC "{now.name}"')
    if now.spec.volume_name:
        try:
            raw = yield ApiCall("get", PERSISTENT_VOLUMES.path(name=now.spec.volume_name))
        except NotFound:
            return False
        _check_reach(waiting, convert_object(raw, PersistentVolume))
    return now.fully_bound


def _check_reach(waiting: VolumesToBind, volume: PersistentVolume) -> None:
    node = waiting.node
    if not matches_node_affinity(node.metadata.labels, volume.reachable_from):
        raise VolumesUnbound(
            f'binding volumes: pv "{volume.name}" node affinity doesn\'t match node '
            f'"{node.name}": no matching NodeSelectorTerms'
        )


def _guarded(obj: Object, change: Mapping[str, Any]) -> dict[str, Any]:
    """Bind a change, and the object's annotations, to the very version that was looked at."""
    meta = obj.metadata
    identity = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    guard: dict[str, Any] = {key: value for key, value in identity.items() if value}
    ours = {k: v for k, v in meta.annotations.items() if k in (BOUND_BY_CONTROLLER, SELECTED_NODE)}
    if ours:
        guard["annotations"] = ours
    return {**change, "metadata": guard}


def _path(claim: PersistentVolumeClaim) -> str:
    return PERSISTENT_VOLUME_CLAIMS.path(claim.namespace, claim.name)
