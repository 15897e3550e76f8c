"""The writes that bind volumes, and the wait until they are bound.

The scheduler only sets a volume's claimRef and a claim's selected node. The volume controller and
the provisioner bind, and the pod waits for them. Failed writes are not undone: the volume
controller completes or releases half-made bindings.
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
from holdfast.runtime.errors import HoldfastError, NotFound
from holdfast.scheduling.framework.plugin import MERGE_PATCH, ApiCall, ApiCalls
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.volumes import PodVolumes
from holdfast.state.volumes.matching import is_bound_to, matches_node_affinity

POLL_SECONDS = 1.0
BindingWrites = Generator[ApiCall, Any, bool]


class VolumesUnbound(HoldfastError):
    """The volumes were not bound: the pod must be scheduled again."""


@dataclass(frozen=True, slots=True)
class VolumesToBind:
    """The volumes of a pod on a node that must be bound."""

    pod: PodInfo
    node: Node
    pod_volumes: PodVolumes


def with_claim_ref(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return the volume with a claimRef to the claim."""
    meta = volume.metadata
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in meta.annotations:
        annotations = {**meta.annotations, BOUND_BY_CONTROLLER: "yes"}
        meta = msgspec.structs.replace(meta, annotations=annotations)
    claim_ref = ObjectReference(
        api_version="v1", kind="PersistentVolumeClaim", namespace=claim.namespace, name=claim.name,
        uid=claim.uid, resource_version=claim.metadata.resource_version,
    )  # fmt: skip
    old = volume.spec.claim_ref
    identity = (claim_ref.namespace, claim_ref.name, claim_ref.uid)
    if old is not None and (old.namespace, old.name, old.uid) == identity:
        claim_ref = old
    spec = msgspec.structs.replace(volume.spec, claim_ref=claim_ref)
    return msgspec.structs.replace(volume, metadata=meta, spec=spec)


def with_selected_node(claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    """Return the claim with the selected-node annotation."""
    annotations = {**claim.metadata.annotations, SELECTED_NODE: node}
    meta = msgspec.structs.replace(claim.metadata, annotations=annotations)
    return msgspec.structs.replace(claim, metadata=meta)


def bind_volumes(waiting: VolumesToBind, timeout: int) -> ApiCalls:
    """Write claimRefs and selected nodes, then wait until all claims are bound."""
    for volume, _claim in waiting.pod_volumes.static_bindings:
        change = {"spec": {"claimRef": json_values(volume.spec.claim_ref)}}
        path = PERSISTENT_VOLUMES.path(name=volume.name)
        yield ApiCall("patch", path, _guarded(volume, change), MERGE_PATCH)
    for claim in waiting.pod_volumes.dynamic_provisions:
        yield ApiCall("patch", _path(claim), _guarded(claim, {}), MERGE_PATCH)
    # Plugins have no clock: the timeout is counted in polls.
    for _ in range(max(1, round(timeout / POLL_SECONDS))):
        yield ApiCall("sleep", "", POLL_SECONDS)
        if (yield from _all_bound(waiting)):
            return
    raise VolumesUnbound("binding volumes: context deadline exceeded")


def _all_bound(waiting: VolumesToBind) -> BindingWrites:
    pod = waiting.pod
    try:
        yield ApiCall("get", PODS.path(pod.namespace, pod.name))
    except NotFound as missing:
        raise VolumesUnbound(
            f"binding volumes: pod does not exist any more: {missing}"
        ) from missing
    for volume, claim in waiting.pod_volumes.static_bindings:
        if not (yield from _is_bound(waiting, volume, claim)):
            return False
    for claim in waiting.pod_volumes.dynamic_provisions:
        if not (yield from _is_provisioned(waiting, claim)):
            return False
    return True


def _is_bound(
    waiting: VolumesToBind, volume: PersistentVolume, claim: PersistentVolumeClaim
) -> BindingWrites:
    try:
        raw = yield ApiCall("get", PERSISTENT_VOLUMES.path(name=volume.name))
        now = convert_object(raw, PersistentVolume)
        raw = yield ApiCall("get", _path(claim))
    except NotFound as missing:
        raise VolumesUnbound(f"binding volumes: failed to check binding: {missing}") from missing
    _check_node_affinity(waiting, now)
    if now.spec.claim_ref is None or not now.spec.claim_ref.uid:
        raise VolumesUnbound(f'binding volumes: ClaimRef got reset for pv "{now.name}"')
    return convert_object(raw, PersistentVolumeClaim).fully_bound


def _is_provisioned(waiting: VolumesToBind, claim: PersistentVolumeClaim) -> BindingWrites:
    try:
        raw = yield ApiCall("get", _path(claim))
    except NotFound as missing:
        message = f"binding volumes: failed to check provisioning pvc: {missing}"
        raise VolumesUnbound(message) from missing
    now = convert_object(raw, PersistentVolumeClaim)
    if not now.metadata.annotations:
        raise VolumesUnbound(f'binding volumes: selectedNode annotation reset for PVC "{now.name}"')
    if now.selected_node != waiting.node.name:
        # A provisioner removes the selected node if it cannot provision there.
        raise VolumesUnbound(f'binding volumes: provisioning failed for PVC "{now.name}"')
    if now.spec.volume_name:
        try:
            raw = yield ApiCall("get", PERSISTENT_VOLUMES.path(name=now.spec.volume_name))
        except NotFound:
            return False
        _check_node_affinity(waiting, convert_object(raw, PersistentVolume))
    return now.fully_bound


def _check_node_affinity(waiting: VolumesToBind, volume: PersistentVolume) -> None:
    node = waiting.node
    if not matches_node_affinity(node.metadata.labels, volume.reachable_from):
        raise VolumesUnbound(
            f'binding volumes: pv "{volume.name}" node affinity doesn\'t match node '
            f'"{node.name}": no matching NodeSelectorTerms'
        )


def _guarded(obj: Object, change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch with annotations, valid only for the version that was read."""
    meta = obj.metadata
    identity = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    guard: dict[str, Any] = {key: value for key, value in identity.items() if value}
    ours = {k: v for k, v in meta.annotations.items() if k in (BOUND_BY_CONTROLLER, SELECTED_NODE)}
    if ours:
        guard["annotations"] = ours
    return {**change, "metadata": guard}


def _path(claim: PersistentVolumeClaim) -> str:
    return PERSISTENT_VOLUME_CLAIMS.path(claim.namespace, claim.name)
