"""Explain delays of a pod other than the decision: its claims, its binding, its start.

Functions return data in the shape that ``holdfast why`` prints, or the same as text.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api import scheme
from holdfast.api.decode import JsonObject
from holdfast.api.devices import ResourceClaim
from holdfast.api.pod import Pod
from holdfast.api.resource_names import DEVICE_CLASS_PREFIX
from holdfast.api.workloads import Event
from holdfast.cli.classic_dra.explanation import classic_claims, classic_lines, read_failures
from holdfast.cli.table import join_names
from holdfast.client.client import Client
from holdfast.runtime.errors import Forbidden
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.dynamic_resources.binding_conditions import (
    Progress,
    conditional_results,
    missing_conditions,
    progress_of,
)
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.devices.claims import (
    ClaimNotReady,
    claims_of_pod,
    is_bound_with,
    is_reserved_for,
)

QUOTA_WORDS = "exceeded quota"
QUOTA_ADVICE = "wait until the quota has room, or let an administrator raise it"
FAILED_PREPARE = "FailedPrepareDynamicResources"
CLAIM_NOT_CREATED = "FailedResourceClaimCreation"


def claims_in_preparation(world: World, pod: Pod) -> JsonObject:
    """Return the pod's classic claims, and the structured ones for which its binding waits."""
    return classic_claims(world, pod) | devices_in_preparation(world, pod)


def devices_in_preparation(world: World, pod: Pod) -> JsonObject:
    """Return the claims that the binding of a pod waits for, as ``waitsForDevices``."""
    if pod.spec.node_name:
        return {}
    waiting = [
        {
            "claim": claim.key,
            "devices": [
                {
                    "device": "/".join((result.driver, result.pool, result.device)),
                    "driver": result.driver,
                    "conditions": missing,
                }
                for result in conditional_results(claim)
                if (missing := missing_conditions(claim, result))
            ],
            "node": pod.status.nominated_node_name or None,
        }
        for claim in _structured_claims(world, pod)
        if is_reserved_for(claim, pod.uid) and progress_of(claim) is Progress.WAITING
    ]
    return {"waitsForDevices": waiting} if waiting else {}


def _structured_claims(world: World, pod: Pod) -> list[ResourceClaim]:
    """Return the claims that a pod names, none if one is missing.

    Includes the claim of its extended resources, if the pod is bound with it or is being bound.
    """
    claims = world.devices.claims
    try:
        pod_claims = list(claims_of_pod(pod, claims))
    except ClaimNotReady:
        pod_claims = []
    extended = claims.extended_claim_of(pod)
    if extended is None or not is_bound_with(pod, extended):
        return pod_claims
    return [*pod_claims, extended]


def missing_device_classes(world: World, pod: PodInfo) -> JsonObject:
    """Return the classes that do not exist and that the pod requests by their implicit names."""
    names = [world.nodes.resources[resource] for resource, amount in pod.request if amount]
    classes = [
        name.removeprefix(DEVICE_CLASS_PREFIX)
        for name in names
        if name.startswith(DEVICE_CLASS_PREFIX)
    ]
    missing = [name for name in classes if name not in world.devices.classes.by_name]
    return {"missingDeviceClasses": sorted(missing)} if missing else {}


def drivers_of_claims(world: World, pod: Pod) -> list[str]:
    """Return the names of the drivers that have to prepare devices for a pod."""
    claims = _structured_claims(world, pod)
    drivers = {result.driver for claim in claims for result in claim.results}
    for of_pod in world.classic.ready_claims_of(pod):
        drivers.add(of_pod.claim.status.driver_name)
    return sorted(drivers - {""})


async def read_reports(client: Client, pod: Pod) -> JsonObject:
    """Return other components' reports about a pod: no claim was made, or it does not start.

    Each report is the last event about its subject.
    """
    if pod.spec.node_name and pod.status.phase != "Pending":
        return {}
    try:
        fields = f"involvedObject.uid={pod.uid}"
        events = (await client.list(scheme.EVENTS, pod.namespace, fields=fields)).items
    except Forbidden:
        events = ()
    ordered = sorted(events, key=lambda event: event.last_seen)
    if not pod.spec.node_name:
        failed = [event.message for event in ordered if event.reason == CLAIM_NOT_CREATED]
        return {"claimFailure": failed[-1]} if failed else {}
    return {"notStarted": _last_warning(ordered, pod.spec.node_name)}


async def add_claim_failures(client: Client, world: World, pod: Pod, answer: JsonObject) -> None:
    """Add to an explanation what drivers report about the classic claims that it has."""
    if "classicClaims" in answer:
        answer["classicClaims"]["failures"] = await read_failures(client, pod, world.classic)


def _last_warning(events: Iterable[Event], node: str) -> JsonObject:
    """Return the last warning from the node; without a host it may be from another component."""
    warnings = [e for e in events if e.type == "Warning" and _is_from(e, node)]
    last = warnings[-1] if warnings else None
    return {"reason": last.reason if last else None, "message": last.message if last else None}


def _is_from(event: Event, node: str) -> bool:
    return node in (event.source.host, event.reporting_instance) or (
        "kubelet" in (event.source.component, event.reporting_component)
    )


def progress_lines(answer: JsonObject) -> list[str]:
    """Format why a pod that fits has no node yet; this text comes before the decision."""
    pod, now = answer["pod"], "if it were scheduled now:"
    if answer.get("nodeName"):
        return []
    waits = answer.get("waitsForDevices")
    if waits and answer.get("schedulable"):  # or they have failed, or time is up
        node = f" on {waits[0]['node']}" if waits[0]["node"] else ""
        return [
            f"{pod} waits{node} until its devices are prepared:",
            *(line for claim in waits for line in _waiting(claim)),
            now,
        ]
    last = answer.get("lastAttempt")
    if last and answer.get("schedulable"):
        said = last["message"].removesuffix(".")
        advice = [f"  to do: {QUOTA_ADVICE}"] if QUOTA_WORDS in said else []
        return [f"{pod}: the last attempt failed ({last['reason']}): {said}", *advice, now]
    return []


def _waiting(claim: JsonObject) -> Iterable[str]:
    for device in claim["devices"]:
        yield (
            f"  claim {claim['claim']} has {device['device']}: {device['driver']} has not reported "
            f"{join_names(device['conditions'])} yet"
        )


def claim_lines(answer: JsonObject) -> list[str]:
    """Format what stands in the way of the pod's classic claims."""
    return classic_lines(answer)


def start_lines(answer: JsonObject) -> list[str]:
    """Format why a pod that is bound has not started."""
    not_started = answer.get("notStarted")
    if not_started is None:
        return []
    node, drivers = answer["nodeName"], join_names(not_started["drivers"])
    why = (
        f": {not_started['reason']}: {not_started['message']}" if not_started["reason"] else " yet"
    )
    lines = [f"{answer['pod']} has not started on {node}{why}"]
    if drivers and not_started["reason"] in (None, FAILED_PREPARE):
        lines.append(
            f"  to do: see whether {drivers} runs on {node} and is registered, and its log"
        )
    return lines


def class_lines(answer: JsonObject) -> list[str]:
    """Format the device classes that do not exist, with what to do."""
    return [
        line
        for name in answer.get("missingDeviceClasses") or ()
        for line in (
            f"  {DEVICE_CLASS_PREFIX}{name} is the name of device class {name}, which does not "
            "exist",
            f"         to do: create DeviceClass {name}, or correct the name; `kubectl get "
            "deviceclasses` lists what exists",
        )
    ]
