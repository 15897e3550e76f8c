"""What must be true of a cluster, read off its API objects alone, in the slowest obvious way."""

import math
from collections import Counter
from dataclasses import dataclass

from holdfast.api import durations
from holdfast.api.quantity import milli, units
from holdfast.api.requests import pod_request
from holdfast.api.scheme import NODES, PODS, RESERVATIONS, RESOURCE_CLAIMS, RESOURCE_POLICIES
from holdfast.api.timestamps import parse_rfc3339
from holdfast.capacity.annotations import allocated_of, draws_of, inner_reserved
from holdfast.capacity.owners import compile_owners
from holdfast.capacity.resizing import wanted
from laws.cluster_edits import ONCE, POLICY, REUSABLE, SIZE, owners_before, was

IGNORED = "scheduling.koordinator.sh/reservation-ignored"
GPU = "example.com/gpu"
"""No node has any: devices serve it."""
OFFERED = "pod.koordinator.sh/is-pre-allocatable"
HOLDING = ("Available", "Waiting")
SLACK = 5.0
"""Seconds within which an end is noticed."""


@dataclass(frozen=True)
class Census:
    """Everything there is at one moment."""

    nodes: dict
    pods: list
    reservations: list
    policies: list
    claims: list

    @property
    def standing(self):
        """Pods that take room on a node."""
        return [p for p in self.pods if p.spec.node_name and not p.finished]

    @property
    def waiting(self):
        """Pods that look for a node."""
        return [p for p in self.pods if not (p.spec.node_name or p.finished or p.terminating)]

    def on(self, node):
        """Pods that take room on one node."""
        return [p for p in self.standing if p.spec.node_name == node]

    def held_on(self, node):
        """Reservations that hold room on one node."""
        return [r for r in self.reservations if r.phase in HOLDING and r.status.node_name == node]


async def take_census(client):
    """Read everything from the API."""
    nodes = (await client.list(NODES)).items
    return Census(
        {n.name: n for n in nodes},
        list((await client.list(PODS)).items),
        list((await client.list(RESERVATIONS)).items),
        list((await client.list(RESOURCE_POLICIES)).items),
        list((await client.list(RESOURCE_CLAIMS)).items),
    )


def amounts_of(texts):
    """Amounts as the scheduler counts them: cpu in millicores, the rest in units."""
    return Counter({k: milli(v) if k == "cpu" else units(v) for k, v in texts.items()})


def request_of(pod):
    """What a pod takes on its node, its pod slot included."""
    return Counter(pod_request(pod).amounts) + Counter(pods=1)


def draw_of(pod, reservation):
    """What a pod draws on a reservation, None if it does not."""
    for draw in draws_of(pod):
        if draw.uid == reservation.uid:
            return amounts_of(draw.resources)
    named = allocated_of(pod)
    if named is None or named.uid != reservation.uid or draws_of(pod):
        return None
    return Counter(pod_request(pod).amounts)


def users_of(reservation, census):
    """(pod, draw) of everybody who stands on the reservation's node and draws on it."""
    there = census.on(reservation.status.node_name)
    found = ((pod, draw_of(pod, reservation)) for pod in there)
    return [(pod, draw) for pod, draw in found if draw is not None]


def held_beside(reservation, census):
    """What a reservation keeps from everybody besides what its owners take themselves."""
    users = users_of(reservation, census)
    used = sum((draw for _, draw in users), Counter())
    reserved = amounts_of(reservation.status.allocatable)
    inner = amounts_of(inner_reserved(reservation)) & reserved
    held = Counter({k: max(t, used[k] + inner[k]) - used[k] for k, t in reserved.items()})
    held["pods"] = max(0, reserved.get("pods", 1) - len(users))
    return held


def left_of(reservation, census):
    """What an owner may still draw."""
    used = sum((draw for _, draw in users_of(reservation, census)), Counter())
    reserved = amounts_of(reservation.status.allocatable)
    kept = used + (amounts_of(inner_reserved(reservation)) & reserved)
    return +Counter({k: t - kept[k] for k, t in reserved.items()})


def free_on(node, census):
    """What nobody takes or holds on a node."""
    free = Counter(amounts_of(census.nodes[node].status.allocatable))
    for pod in census.on(node):
        free.subtract(request_of(pod))
    for reservation in census.held_on(node):
        free.subtract(held_beside(reservation, census))
    return free


def unused_on(node, census):
    """What no pod takes on a node, whoever holds it."""
    has = Counter(amounts_of(census.nodes[node].status.allocatable))
    return has - sum(map(request_of, census.on(node)), Counter())


def owns(pod, reservation):
    """Whether the pod is one of the owners."""
    return any(rule.owns(pod) for rule in compile_owners(reservation.spec.owners) or ())


def owned_once(pod, reservation):
    """Whether it is one, or was before either was edited: who is inside stays."""
    apps = {pod.metadata.labels.get("app"), *owners_before(pod)}
    rules = [owner.label_selector.match_labels["app"] for owner in reservation.spec.owners]
    return bool(apps & {*rules, *owners_before(reservation)})


def broken_promises(census):
    """Every promise that does not hold; faults and restarts excuse none."""
    return [
        *_overcommitted(census),
        *_drawn_twice(census),
        *_drawn_by_strangers(census),
        *_drawn_beyond(census),
        *_ports_shared(census),
        *_too_near(census),
        *_pools_too_full(census),
        *_devices_shared(census),
    ]


def _overcommitted(census):
    """Pods, and held room besides them, within what each node has: I1, I2 and I4 at once.

    Who ignores reservations may stand in held room, but must have somewhere to stand.
    """
    for node in census.nodes:
        there = census.on(node)
        excused = sum((request_of(p) for p in there if ignores(p)), Counter())
        for reservation in census.held_on(node):
            # Room that is still in use: whoever has it must have it alone.
            if reservation.phase == "Waiting":
                excused += held_beside(reservation, census)
        for resource, amount in free_on(node, census).items():
            if amount + excused[resource] < 0 and resource != GPU:
                yield f"{node} lacks {-amount} of {resource}"
        has = amounts_of(census.nodes[node].status.allocatable)
        for resource, amount in sum(map(request_of, there), Counter()).items():
            if amount > has[resource] and resource != GPU:
                yield f"{node} has {has[resource]} of {resource}, pods take {amount}"


def leaves_room_to(pod, reservation):
    """Whether a pod offers its room to reservations, and this is one of those that take it."""
    policy = reservation.spec.pre_allocation_policy
    chosen = reservation.spec.pre_allocation and policy is not None and policy.mode == "Cluster"
    return chosen and pod.metadata.labels.get(OFFERED) == "true"


def ignores(pod):
    """Whether a pod says that reservations do not concern it."""
    return pod.metadata.labels.get(IGNORED) == "true"


def ports_of(spec):
    """Host ports of a pod, or of a reservation's template."""
    return {port.host_port for c in spec.containers for port in c.ports if port.host_port}


def _drawn_by_strangers(census):
    for reservation in census.reservations:
        for pod in census.standing:
            theirs = owned_once(pod, reservation) or leaves_room_to(pod, reservation)
            if draw_of(pod, reservation) is not None and not theirs:
                yield f"{pod.name} draws on {reservation.name}, which is not for it"


def _drawn_beyond(census):
    """Who is restricted to a reservation takes no more of it than is there."""
    for reservation in census.reservations:
        # Who is inside keeps what it has when it is restricted, or shrunk, afterwards.
        edited = was(reservation, POLICY) or was(reservation, SIZE)
        excused = reservation.spec.pre_allocation or edited
        if reservation.spec.allocate_policy != "Restricted" or excused:
            continue
        used = sum((draw for _, draw in users_of(reservation, census)), Counter())
        has = amounts_of(reservation.status.allocatable)
        lent = has - (amounts_of(inner_reserved(reservation)) & has)
        beyond = {k: used[k] - lent[k] for k in has if used[k] > lent[k]}
        if beyond and reservation.phase in HOLDING:
            yield f"{reservation.name} is restricted, drawn {beyond} beyond {has}"


def _ports_shared(census):
    """A port serves one pod of a node, and one that is reserved no stranger."""
    for node in census.nodes:
        seen = {}
        for pod in census.on(node):
            for port in ports_of(pod.spec):
                if port in seen:
                    yield f"{pod.name} and {seen[port]} share port {port} of {node}"
                seen[port] = pod.name
            for reservation in census.held_on(node):
                kept = ports_of(reservation.spec.template.spec)
                if kept & ports_of(pod.spec) and not (owned_once(pod, reservation) or ignores(pod)):
                    yield f"{pod.name} stands on a port of {reservation.name}"


def _too_near(census):
    """Whom a pod will not have near is not near it; to strangers so it is with reservations."""
    for node in census.nodes:
        apart = [p for p in census.on(node) if "apart" in p.metadata.labels]
        rooms = [r for r in census.held_on(node) if "apart" in r.metadata.labels]
        if len(apart) > 1 and any(pod.spec.affinity for pod in apart):
            yield f"{[p.name for p in apart]} are together on {node}"
        for pod in apart:
            for room in rooms:
                if not (owned_once(pod, room) or ignores(pod)):
                    yield f"{pod.name} is near {room.name} on {node}"


def _drawn_twice(census):
    for reservation in census.reservations:
        users = [p.name for p in census.standing if draw_of(p, reservation) is not None]
        inherits = reservation.spec.pre_allocation and reservation.phase in ("Waiting", "Failed")
        shared = inherits or was(reservation, REUSABLE)
        if reservation.spec.allocate_once and len(users) > 1 and not shared:
            yield f"allocate-once {reservation.name} is drawn on by {users}"


def _pools_too_full(census):
    for policy in census.policies:
        wanted = policy.spec.pod_selector.match_labels.items()
        for unit in policy.spec.units:
            pool = unit.node_selector.match_labels.items()
            nodes = {n for n, node in census.nodes.items() if pool <= node.metadata.labels.items()}
            there = [
                p.name
                for p in census.standing
                if p.spec.node_name in nodes and wanted <= p.metadata.labels.items()
            ]
            if unit.max_count is not None and len(there) > unit.max_count:
                yield f"unit {unit.name} takes {unit.max_count} and has {there}"


def _devices_shared(census):
    holders = {}
    for claim in census.claims:
        if claim.status.allocation is not None:
            for result in claim.status.allocation.devices.results:
                device = (result.driver, result.pool, result.device)
                holders.setdefault(device, []).append(claim.name)
    for device, claims in holders.items():
        if len(claims) > 1:
            yield f"device {device} serves {claims}"
    for pod in census.standing:
        for name in claims_of(pod):
            claim = next((c for c in census.claims if c.name == name), None)
            if claim is None or claim.status.allocation is None:
                yield f"{pod.name} stands on {pod.spec.node_name} without its devices"
            elif pod.uid not in {consumer.uid for consumer in claim.status.reserved_for}:
                yield f"{pod.name} uses {claim.name}, which is not reserved for it"


def claims_of(pod):
    """The claims a pod that stands on a node must have."""
    named = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    if GPU in pod_request(pod).amounts:
        made = pod.status.extended_resource_claim_status
        named.append(made.resource_claim_name if made else "")
    return named


def stale_statuses(census):
    """Reservations whose status does not tell the truth about who uses them."""
    for reservation in census.reservations:
        if reservation.phase not in HOLDING:
            continue
        users = users_of(reservation, census)
        told = [owner.uid for owner in reservation.status.current_owners]
        if told != sorted(pod.uid for pod, _ in users):
            yield f"{reservation.name} names {told}, drawn on by {[p.name for p, _ in users]}"
        reserved = amounts_of(reservation.status.allocatable)
        used = sum((draw for _, draw in users), Counter())
        true = +Counter({k: used[k] for k in reserved})
        if +amounts_of(reservation.status.allocated) != true:
            yield f"{reservation.name} says {reservation.status.allocated}, true is {true}"
        if users and reservation.spec.allocate_once and reservation.phase != "Waiting":
            yield f"allocate-once {reservation.name} is used and still {reservation.phase}"


def wrong_phases(census, now):
    """Reservations that live on past their end, or end for no reason, or do not say so."""
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
        if phase == "Available" and said != ("True", "Available") and not short:
            yield f"{name} is Available and whole, and says {said}"
        if phase == "Waiting" and said != ("False", "Waiting"):
            yield f"{name} is Waiting and says {said}"
        if phase == "Failed" and said != ("False", "Expired"):
            yield f"{name} has failed and says {said}"
        if phase == "Succeeded" and not (reservation.spec.allocate_once or was(reservation, ONCE)):
            yield f"{name} has succeeded and may serve more"


def ends_at(reservation):
    """When it ends; ``expires`` alone counts where it is given."""
    if reservation.spec.expires:
        return parse_rfc3339(reservation.spec.expires)
    ttl = durations.parse(reservation.spec.ttl)
    return parse_rfc3339(reservation.metadata.creation_timestamp) + ttl if ttl else math.inf


def wrong_sizes(census):
    """Reservations that hold another size than they ask for and do not say why."""
    for reservation in census.reservations:
        said = reservation.condition("Resized")
        if reservation.phase != "Available" or users_of(reservation, census):
            continue
        asked = wanted(reservation)
        if asked is not None and (said is None or said.status != "False"):
            yield f"{reservation.name} holds {reservation.status.allocatable}, asks for {asked}"
        if asked is None and said is not None and said.status == "False":
            yield f"{reservation.name} complains about its size without need"


def left_waiting(census):
    """Pods and reservations that wait although there is room for them."""
    available = [r for r in census.reservations if r.phase == "Available"]
    for pod in census.waiting:
        if claims_of(pod) or _governed(pod, census) or ports_of(pod.spec) or pod.spec.affinity:
            continue
        # Whose door is closed takes nobody in; it is none of theirs.
        open_ones = [r for r in available if not (r.spec.unschedulable or r.spec.taints)]
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
            # Who ignores reservations may stand in it.
            room = left_of(r, census) & unused_on(r.status.node_name, census)
            if not taken and free["pods"] > 0 and asked and asked <= room:
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
