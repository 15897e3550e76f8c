"""Create a reservation for a preempting pod, so that no other pod gets what its victims free.

It is created before the victims are evicted, in phase Waiting on the node to which the pod will be
nominated, and only that pod may use it. Its scheduler name is no profile's, so that no scheduling
attempt competes with the write of its status. The reservation controller deletes it when the pod
is bound, gone or nominated elsewhere, also after a crash at any point.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.api.annotations import OF_ALLOCATIONS
from holdfast.api.reservation import WAITING, Reservation
from holdfast.api.reservation_names import AFFINITY, PREEMPTOR
from holdfast.api.reservation_status import waiting
from holdfast.api.scheme import RESERVATIONS
from holdfast.scheduling.framework.plugin import MERGE_PATCH, ApiCall
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.reservation.reserve_pods import allocatable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.matching import ignores_reservations

SCHEDULER = "holdfast-preemption"
TTL = "1h"
"""A limit for the case that no controller deletes it."""


def reservation_for_preemptor(
    pod: PodInfo, node: str, world: World, now: float
) -> Sequence[ApiCall]:
    """Return the calls that create the reservation, fewer if it is there already.

    There are no calls for a pod that needs no reservation or can have none: a pod that matches
    reservations on the node or ignores them, a reserve pod, and a pod with claims for devices.
    """
    if not _may_have_one(pod, node, world):
        return ()
    name = reservation_name(pod, node)
    path = RESERVATIONS.path(name=name)
    known = {r.name for r in world.reservations.pending.values()}
    create = ApiCall(
        "create", RESERVATIONS.path(), _reservation(name, pod, node), returns=Reservation
    )
    status = {
        "phase": WAITING,
        "nodeName": node,
        "allocatable": allocatable(pod),
        "conditions": waiting(now, "waiting for the resources of preempted pods"),
    }
    hold = ApiCall("patch", f"{path}/status", {"status": status}, MERGE_PATCH, Reservation)
    return (hold,) if name in known else (create, hold)


def reservation_name(pod: PodInfo, node: str) -> str:
    """Return the name of the reservation; it depends on the node."""
    return f"preemptor-{pod.pod.uid}-{zlib.crc32(node.encode()):08x}"


def _may_have_one(pod: PodInfo, node: str, world: World) -> bool:
    if pod.is_reserve_pod or ignores_reservations(pod) or AFFINITY in pod.pod.metadata.annotations:
        return False
    if pod.pod.spec.resource_claims or world.devices.device_backed(pod.request):
        return False
    groups = world.reservations.index.owned_by(pod.pod)
    held = [world.reservations.at(int(slot)) for group in groups for slot in group.slots]
    return all(info.node != node for info in held)


def _reservation(name: str, pod: PodInfo, node: str) -> dict[str, Any]:
    meta = pod.pod.metadata
    notes = {key: text for key, text in meta.annotations.items() if key not in OF_ALLOCATIONS}
    spec = msgspec.to_builtins(pod.pod.spec)
    owner = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name, "labels": {PREEMPTOR: meta.uid}},
        "spec": {
            "template": {
                "metadata": {
                    "namespace": meta.namespace,
                    "labels": dict(meta.labels),
                    "annotations": notes,
                },
                "spec": {**spec, "nodeName": node, "schedulerName": SCHEDULER},
            },
            "owners": [{"object": owner}],
            "allocatePolicy": "Aligned",
            "preAllocation": True,
            "ttl": TTL,
        },
    }
