"""``holdfast reservation why``: explain the state of one reservation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.api import scheme
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.api.reservation import FAILED, FINAL, PENDING, SUCCEEDED, WAITING, Reservation
from holdfast.api.timestamps import parse_rfc3339
from holdfast.api.validation.reservation import check_reservation, owner_namespaces
from holdfast.cli.connection import connect, list_all
from holdfast.cli.devices.shared_devices import amounts_text, as_amounts
from holdfast.cli.explanation_text import format_explanation
from holdfast.cli.reservation.listing import ends, owners_of, trouble
from holdfast.cli.scheduler_configuration import SchedulerSetup
from holdfast.cli.snapshot import Snapshot
from holdfast.cli.table import format_duration, list_amounts, print_json
from holdfast.cli.world_building import DEFAULT_GATES, build_world
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import BadRequest, NotFound, Refused, aggregate_message
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.scheduling.engine.profile import Profile
from holdfast.state.device_share.ledger import annotated_use
from holdfast.state.numa.cpu_set import format_cpu_list
from holdfast.state.numa.resource_status import read_allocation
from holdfast.state.reservations.owner_rules import compile_owners
from holdfast.state.reservations.reserve_pod import reserve_pod

Profiles = Mapping[str, Profile]


def run(name: str, kubeconfig: Path | None, config: Path | None, gates: str, output: str) -> None:
    """Print the explanation of a reservation."""
    answer = asyncio.run(_explain(name, kubeconfig, config, gates))
    if output == "json":
        print_json(answer)
    else:
        print("\n".join(answer["lines"]))


async def _explain(
    name: str, kubeconfig: Path | None, config: Path | None, chosen: str
) -> dict[str, Any]:
    async with connect(kubeconfig, "holdfast-reservation") as (client, endpoint):
        setup = SchedulerSetup(client, endpoint.url, kubeconfig)
        configuration, gates = await setup.read(config, chosen)
        try:
            reservation = await client.get(scheme.RESERVATIONS, name)
        except NotFound as missing:
            raise Refused(
                f'there is no reservation "{name}" at {endpoint.url}: '
                "`holdfast reservation list` lists them"
            ) from missing
        objects = await list_all(client)
    return explain(reservation, objects, configuration.profiles, SystemClock().now(), gates)


def explain(
    reservation: Reservation,
    objects: Sequence[Object],
    profiles: Profiles,
    now: float,
    gates: FeatureGates = DEFAULT_GATES,
) -> dict[str, Any]:
    """Return the explanation as lines, and the decision for a reservation without a node."""
    answer: dict[str, Any] = {"reservation": reservation.name, "phase": reservation.phase}
    if reservation.phase == PENDING:
        decision, lines = _without_a_node(reservation, objects, profiles, now, gates)
        answer |= {"decision": decision}
    elif reservation.phase in FINAL:
        lines = [_end(reservation, now)]
    else:
        pods = [obj for obj in objects if isinstance(obj, Pod)]
        lines = [*_on_a_node(reservation, now), *_waiting_owners(reservation, pods)]
    return answer | {"lines": lines}


def _without_a_node(
    reservation: Reservation,
    objects: Sequence[Object],
    profiles: Profiles,
    now: float,
    gates: FeatureGates,
) -> tuple[dict[str, Any] | None, list[str]]:
    head = f"{reservation.name} has no node, ends {ends(reservation, now)}"
    if reservation.metadata.deletion_timestamp:
        return None, [f"{head}: it is being deleted"]
    wrong = list(check_reservation(reservation))
    if wrong:
        return None, [
            f"{head}: it is not scheduled, because it is invalid: {aggregate_message(wrong)}"
        ]
    if reservation.scheduler_name not in profiles:
        names = ", ".join(profiles)
        return None, [f"{head}: spec.template.spec.schedulerName is {reservation.scheduler_name}; "
                      f"Holdfast schedules those of {names}"]  # fmt: skip
    snapshot = Snapshot(build_world(objects, gates), reserve_pod(reservation), is_reserve_pod=True)
    decision = snapshot.explain(profiles, now, preempt=True) | {"pod": reservation.name}
    if decision["schedulable"]:
        return decision, [
            f"{head} yet, and would get one now:",
            format_explanation(decision).rstrip(),
        ]
    return decision, [f"{head}:", format_explanation(decision).rstrip()]


def _end(reservation: Reservation, now: float) -> str:
    ready = reservation.condition("Ready")
    when = ready.last_transition_time if ready is not None else None
    ago = f" {format_duration(now - parse_rfc3339(when))} ago" if when else ""
    if reservation.phase == SUCCEEDED:
        takers = ", ".join(f"{o.namespace}/{o.name}" for o in reservation.status.current_owners)
        users = takers or "its owner"
        return f"{reservation.name} has ended: {users} used it{ago}, and it serves one pod only"
    if reservation.expired:
        limit = (f"expires {reservation.spec.expires} has passed" if reservation.spec.expires
                 else f"ttl {reservation.spec.ttl} is over, or its node is gone")  # fmt: skip
        return f"{reservation.name} has ended: it expired{ago} ({limit}); its resources are free"
    assert reservation.phase == FAILED
    return f"{reservation.name} has failed; its resources are free"


def _on_a_node(reservation: Reservation, now: float) -> list[str]:
    status = reservation.status
    held, used = list_amounts([status.allocatable, status.allocated])
    lines = [
        f"{reservation.name} holds {held} on {status.node_name} for "
        f"{owners_of(reservation)}, ends {ends(reservation, now)}",
        f"  used: {used}"
        + "".join(f"\n    by {o.namespace}/{o.name}" for o in status.current_owners),
        *_identities(reservation),
    ]
    if reservation.phase == WAITING:
        lines.append("  it waits until running pods free its resources; no owner may use it yet")
    if reservation.spec.unschedulable:
        lines.append("  spec.unschedulable is set: no new owner may use it")
    if reservation.metadata.deletion_timestamp:
        lines.append("  it is being deleted: no new owner may use it")
    if reservation.spec.taints:
        listed = ", ".join(f"{t.key}={t.value}:{t.effect}" for t in reservation.spec.taints)
        lines.append(f"  only owners that tolerate {listed} may use it")
    lines.extend(
        f"  {words}" for words in (_unreadable_limit(reservation), trouble(reservation)) if words
    )
    return lines


def _unreadable_limit(reservation: Reservation) -> str:
    """Return why no pod is an owner, if the annotation that limits them cannot be read."""
    try:
        owner_namespaces(reservation)
    except BadRequest as wrong:
        return f"no pod is an owner: {wrong.message}"
    return ""


def _identities(reservation: Reservation) -> list[str]:
    """Write the CPUs and shared devices that a reservation has, and how to see their use."""
    lines, node = [], reservation.status.node_name
    if cpus := read_allocation(reservation.metadata.annotations).cpus:
        lines.append(f"  its CPUs: {format_cpu_list(cpus)}; `holdfast cpus {node}` shows their use")
    devices = [
        f"{kind} {minor} {amounts_text(as_amounts(kind, amounts))}"
        for kind, minor, amounts in annotated_use(
            reservation, reservation.status.allocatable
        ).amounts
    ]
    if devices:
        lines.append(
            f"  its devices: {', '.join(devices)}; `holdfast devices --node {node}` shows their use"
        )
    return lines


def _waiting_owners(reservation: Reservation, pods: Sequence[Pod]) -> list[str]:
    """Describe pending owners, with the reason in their conditions."""
    rules = compile_owners(reservation) or ()
    waiting = [
        pod for pod in pods
        if not pod.spec.node_name and not pod.finished and any(rule.owns(pod) for rule in rules)
    ]  # fmt: skip
    lines = []
    for pod in sorted(waiting, key=lambda pod: pod.key):
        scheduled = pod.condition("PodScheduled")
        message = (scheduled and scheduled.message) or "it has not been tried yet"
        lines.append(f"  {pod.key} may use it and is pending: {message}")
    return lines
