"""Explain what blocks a pod's classic claims: data, text, and the drivers' last events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.api import scheme
from holdfast.api.classic_dra.claims import classic_entries
from holdfast.api.classic_dra.names import MAX_CONSUMERS
from holdfast.api.decode import JsonObject
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.api.workloads import Event
from holdfast.cli.table import join_names
from holdfast.client.client import Client
from holdfast.runtime.errors import Forbidden
from holdfast.scheduling.framework.world import World
from holdfast.state.classic_dra.explanation import explain_claims
from holdfast.state.classic_dra.ledger import ClassicLedger
from holdfast.state.devices.device_map import nodes_text

PLUGIN = "ClassicDynamicResources"
FAILED = "Failed"
"""Reason of a driver's event about a failure."""


def classic_claims(world: World, pod: Pod) -> JsonObject:
    """Return the classic claims of a pod as ``classicClaims``; {} if it has none."""
    try:
        explanation = explain_claims(world.classic, pod)
    except InvalidEntries:
        return {}  # the message of PreFilter reports it
    for each in explanation["claims"]:
        claim = world.classic.claims.get(f"{pod.namespace}/{each['claim']}")
        allocation = None if claim is None else claim.status.allocation
        selector = None if allocation is None else allocation.available_on_nodes
        each["availableOn"] = allocation and nodes_text(None, selector is None, selector)
    return {"classicClaims": explanation} if explanation["claims"] else {}


async def read_failures(client: Client, pod: Pod, ledger: ClassicLedger) -> list[JsonObject]:
    """Return the last failure that drivers report about each claim and the PodScheduling.

    Failures from before a claim's allocation are left out.
    """
    try:
        keys = [f"{pod.namespace}/{entry.claim_name}" for entry in classic_entries(pod)]
    except InvalidEntries:
        return []
    claims = [claim for key in dict.fromkeys(keys) if (claim := ledger.claims.get(key))]
    waiting: list[Object] = [claim for claim in claims if not claim.is_allocated]
    if waiting and (negotiation := ledger.negotiation_of(pod)) is not None:
        waiting.append(negotiation)
    failures: list[JsonObject] = []
    for obj in waiting:
        try:
            fields = f"involvedObject.uid={obj.uid}"
            events = (await client.list(scheme.EVENTS, pod.namespace, fields=fields)).items
        except Forbidden:
            return []
        failures += _last_failure(events)
    return failures


def _last_failure(events: Iterable[Event]) -> Iterator[JsonObject]:
    failures = [event for event in events if event.reason == FAILED]
    for event in sorted(failures, key=lambda event: event.last_seen)[-1:]:
        yield {
            "object": f"{event.involved_object.kind} {event.involved_object.name}",
            "by": event.source.component or event.reporting_component,
            "message": event.message,
            "time": event.last_seen,
        }


def classic_lines(answer: JsonObject) -> list[str]:
    """Format the part of an explanation about the pod's classic claims."""
    explanation = answer.get("classicClaims")
    if not explanation:
        return []
    lines = [line for claim in explanation["claims"] for line in _claim(claim)]
    messages: dict[tuple[str, str], JsonObject] = {}
    for failure in explanation.get("failures") or ():
        messages.setdefault((failure["by"], failure["message"]), failure)
    lines += [
        f"  {one['by']} reported at {one['time']} on {one['object']}: {one['message']}"
        for one in messages.values()
    ]
    if answer.get("nodeName") is None:
        waiting = (_advice(claim, reported=bool(messages)) for claim in explanation["claims"])
        lines += [f"  to do: {words}" for words in dict.fromkeys(waiting) if words]
    return lines


def _advice(claim: JsonObject, *, reported: bool) -> str:
    """Return advice about a claim that the pod waits for, or ""."""
    if claim["state"] in ("Reserved", "Allocated"):
        if claim["consumers"] and not claim["shared"]:
            return "wait until the pod that uses the claim ends, or give each pod its own claim"
        if len(claim["consumers"]) >= MAX_CONSUMERS:
            return "wait until a pod that uses the claim ends, or give the pod its own claim"
        return ""
    if claim["class"] and not claim["driver"]:
        return f"an administrator has to create ResourceClass {claim['class']}"
    if claim["unsuitableNodes"]:
        return "ask for less, or wait until a claim is freed: `holdfast devices` shows what is left"
    if claim["owedBy"] == claim["driver"] and claim["driver"] and not reported:
        return f"if this lasts, see whether the controller of {claim['driver']} runs, and its log"
    return ""


def _claim(claim: JsonObject) -> Iterator[str]:
    mode = "immediate " if claim["immediate"] else ""
    by = f" of class {claim['class']}" if claim["class"] else ""
    words = f"  {mode}claim {claim['claim']}{by}: {claim['state']}"
    if claim["availableOn"]:
        words += f", by {claim['driver']} for use on {claim['availableOn']}"
    if claim["consumers"]:
        shared = ", can be shared" if claim["shared"] else ""
        words += f", used by {join_names(claim['consumers'])}{shared}"
    yield words
    if claim["unsuitableNodes"]:
        names = claim["unsuitableNodes"]
        yield f"  {len(names):>5}  {claim['driver']} cannot allocate it: {join_names(names)}"
    if claim["owed"]:
        by = f"waits for {claim['owedBy']}: " if claim["owedBy"] else ""
        yield f"         {by}{claim['owed']}"
