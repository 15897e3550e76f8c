"""Checks of an idle cluster: statuses are right, and nothing waits that could be placed."""

import math
from collections import Counter

from holdfast.api import durations
from holdfast.api.requests import pod_request
from holdfast.api.timestamps import parse_rfc3339
from holdfast.state.device_share.allocation_annotation import read_device_ids
from holdfast.state.device_share.requests import in_names_of
from holdfast.state.reservations.resizing import wanted_amounts
from laws.cluster_audit import (
    HOLDING,
    amounts_of,
    claims_of,
    free_on,
    held_beside,
    left_of,
    owns,
    ports_of,
    request_of,
    users_of,
)
from laws.cluster_edits import ONCE, was

SLACK = 5.0
"""Seconds within which an expired reservation must fail."""


def stale_statuses(census):
    """Describe reservations whose status does not list the pods that use them."""
    for reservation in census.reservations:
        if reservation.phase not in HOLDING:
            continue
        users = users_of(reservation, census)
        told = [owner.uid for owner in reservation.status.current_owners]
        if told != sorted(pod.uid for pod, _ in users):
            yield f"{reservation.name} names {told}, drawn on by {[p.name for p, _ in users]}"
        reserved = amounts_of(reservation.status.allocatable)
        used = sum((Counter(draw | in_names_of(draw, reserved)) for _, draw in users), Counter())
        true = +Counter({k: used[k] for k in reserved})
        if +amounts_of(reservation.status.allocated) != true:
            yield f"{reservation.name} says {reservation.status.allocated}, true is {true}"
        if users and reservation.spec.allocate_once and reservation.phase != "Waiting":
            yield f"allocate-once {reservation.name} is used and still {reservation.phase}"


def wrong_phases(census, now):
    """Describe reservations that should have ended, or ended without a reason."""
    for reservation in census.reservations:
        name, phase, ready = reservation.name, reservation.phase, reservation.condition("Ready")
        node = reservation.status.node_name
        if phase not in ("Succeeded", "Failed"):
            if node and node not in census.nodes:
                yield f"{name} is {phase} on {node}, which is gone"
            if ends_at(reservation) < now - SLACK:
                yield f"{name} is {phase} {now - ends_at(reservation)} s after its end"
        said = ready and (ready.status, ready.reason)
        short = node in census.nodes and min(free_on(node, census).values()) < 0
        if phase == "Available" and lost_devices(reservation, census):
            if said != ("False", "DevicesUnavailable"):
                yield f"{name} has lost devices, and says {said}"
        elif said == ("False", "PolicyConflict"):
            if not conflicting_policies(reservation, census):
                yield f"{name} says {said}, and all on {node} have policies of its kind"
        elif phase == "Available" and said != ("True", "Available") and not short:
            yield f"{name} is Available and whole, and says {said}"
        if phase == "Waiting" and said != ("False", "Waiting"):
            yield f"{name} is Waiting and says {said}"
        if phase == "Failed" and said != ("False", "Expired"):
            yield f"{name} has failed and says {said}"
        if phase == "Succeeded" and not (reservation.spec.allocate_once or was(reservation, ONCE)):
            yield f"{name} has succeeded and may serve more"


def ends_at(reservation):
    """Return when a reservation expires; ``expires`` takes precedence over ``ttl``."""
    if reservation.spec.expires:
        return parse_rfc3339(reservation.spec.expires)
    ttl = durations.parse(reservation.spec.ttl)
    return parse_rfc3339(reservation.metadata.creation_timestamp) + ttl if ttl else math.inf


def wrong_sizes(census):
    """Describe reservations of another size than requested, without a condition that says why."""
    for reservation in census.reservations:
        said = reservation.condition("Resized")
        if reservation.phase != "Available" or users_of(reservation, census):
            continue
        asked = wanted_amounts(reservation)
        if asked is not None and (said is None or said.status != "False"):
            yield f"{reservation.name} holds {reservation.status.allocatable}, asks for {asked}"
        if asked is None and said is not None and said.status == "False":
            yield f"{reservation.name} complains about its size without need"


def lost_devices(reservation, census):
    """Return the reserved devices that are gone or unhealthy."""
    healthy = {
        (info.type, info.minor)
        for devices in census.devices
        if devices.name == reservation.status.node_name
        for info in devices.spec.devices
        if info.health
    }
    return read_device_ids(reservation.metadata.annotations).keys() - healthy


def conflicting_policies(reservation, census):
    """Return the reservations beside it of which just one side has a policy."""
    default = reservation.spec.allocate_policy == ""
    beside = census.held_on(reservation.status.node_name)
    return [r.name for r in beside if (r.spec.allocate_policy == "") != default]


def left_waiting(census):
    """Describe pods and reservations that wait although they would fit."""
    available = [r for r in census.reservations if r.phase == "Available"]
    for pod in census.waiting:
        if claims_of(pod) or _governed(pod, census) or ports_of(pod.spec) or pod.spec.affinity:
            continue
        # An unschedulable reservation accepts no new owners.
        open_ones = [
            r
            for r in available
            if not (r.spec.unschedulable or r.spec.taints or r.policy_conflicts)
        ]
        mine = [r for r in open_ones if owns(pod, r)]
        wanted = request_of(pod)
        where = [n for n in census.nodes if wanted <= free_on(n, census)]
        must = bool(pod.metadata.annotations)
        if where and not mine and not must:
            yield f"{pod.name} waits, {where} have room"
        for r in mine:
            taken = r.spec.allocate_once and users_of(r, census)
            free = free_on(r.status.node_name, census)
            asked = Counter(pod_request(pod).amounts)
            if not taken and free["pods"] > 0 and asked and asked <= _within_reach(r, census):
                yield f"{pod.name} waits, its {r.name} has room"
    for node in census.nodes:
        waiting = [r for r in census.held_on(node) if r.phase == "Waiting"]
        if (
            not any(users_of(r, census) for r in waiting)
            and min(free_on(node, census).values()) >= 0
        ):
            yield from (f"{r.name} is Waiting, its room on {node} is free" for r in waiting)
    for reservation in census.reservations:
        where = _room_for(reservation, census)
        spec = reservation.spec.template.spec
        if reservation.phase == "Pending" and where and not (ports_of(spec) or spec.affinity):
            yield f"{reservation.name} waits, {where} have room"


def _within_reach(reservation, census):
    """Return what an owner may still use, less what pods that ignore reservations use."""
    node = reservation.status.node_name
    free = free_on(node, census)
    for waiting in census.held_on(node):
        if waiting.phase == "Waiting":  # it uses nothing that other pods had before
            free.update(held_beside(waiting, census))
    left = left_of(reservation, census)
    return +Counter({k: amount + min(0, free[k]) for k, amount in left.items()})


def _room_for(reservation, census):
    containers = reservation.spec.template.spec.containers
    wanted = sum((amounts_of(c.resources.requests) for c in containers), Counter(pods=1))
    pinned = reservation.spec.template.spec.node_name
    default = reservation.spec.allocate_policy == ""
    return [
        n
        for n in census.nodes
        if pinned in ("", n)
        and wanted <= free_on(n, census)
        and all((r.spec.allocate_policy == "") == default for r in census.held_on(n))
    ]


def _governed(pod, census):
    labels = pod.metadata.labels.items()
    return any(p.spec.pod_selector.match_labels.items() <= labels for p in census.policies)
