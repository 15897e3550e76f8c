"""The invariants of a cluster, checked in its API objects alone, in a simple and slow way."""

from collections import Counter
from dataclasses import dataclass

from holdfast.api.annotations import allocated_reservation
from holdfast.api.quantity import milli, units
from holdfast.api.requests import pod_request
from holdfast.api.reservation_names import PREEMPTOR
from holdfast.api.resource_names import DEVICE_CLASS_PREFIX
from holdfast.api.scheme import (
    NODES,
    PODS,
    RESERVATIONS,
    RESOURCE_CLAIMS,
    RESOURCE_POLICIES,
    SHARED_DEVICES,
)
from holdfast.state.device_share.requests import is_of_devices
from holdfast.state.reservations.owner_rules import compile_owners
from holdfast.state.reservations.reservation_annotations import (
    annotated_allocations,
    inner_reserved,
)
from laws.cluster_edits import POLICY, REUSABLE, SIZE, owners_before, was

IGNORED = "scheduling.koordinator.sh/reservation-ignored"
GPU = "example.com/gpu"
"""An extended resource that devices serve; no node has it."""
OFFERED = "pod.koordinator.sh/is-pre-allocatable"
HOLDING = ("Available", "Waiting")


@dataclass(frozen=True)
class Census:
    """All objects at one moment."""

    nodes: dict
    pods: list
    reservations: list
    policies: list
    claims: list
    devices: list

    @property
    def standing(self):
        """The bound pods that are not finished."""
        return [p for p in self.pods if p.spec.node_name and not p.finished]

    @property
    def waiting(self):
        """The pods without a node."""
        return [p for p in self.pods if not (p.spec.node_name or p.finished or p.terminating)]

    def on(self, node):
        """Return the bound pods of a node."""
        return [p for p in self.standing if p.spec.node_name == node]

    def held_on(self, node):
        """Return the reservations that reserve resources on a node."""
        return [r for r in self.reservations if r.phase in HOLDING and r.status.node_name == node]


async def take_census(client):
    """Read all objects from the API."""
    nodes = (await client.list(NODES)).items
    return Census(
        {n.name: n for n in nodes},
        list((await client.list(PODS)).items),
        list((await client.list(RESERVATIONS)).items),
        list((await client.list(RESOURCE_POLICIES)).items),
        list((await client.list(RESOURCE_CLAIMS)).items),
        list((await client.list(SHARED_DEVICES)).items),
    )


def amounts_of(texts):
    """Return amounts in the scheduler's units: cpu in millicores, others in units."""
    return Counter({k: milli(v) if k == "cpu" else units(v) for k, v in texts.items()})


def request_of(pod):
    """Return the request of a pod, including its pod slot."""
    return Counter(pod_request(pod).amounts) + Counter(pods=1)


def draw_of(pod, reservation):
    """Return what a pod uses of a reservation, or None."""
    for draw in annotated_allocations(pod):
        if draw.uid == reservation.uid:
            return amounts_of(draw.resources)
    named = allocated_reservation(pod)
    if named is None or named.uid != reservation.uid or annotated_allocations(pod):
        return None
    return Counter(pod_request(pod).amounts)


def users_of(reservation, census):
    """Return (pod, used amounts) of the pods on the reservation's node that use it."""
    there = census.on(reservation.status.node_name)
    found = ((pod, draw_of(pod, reservation)) for pod in there)
    return [(pod, draw) for pod, draw in found if draw is not None]


def held_beside(reservation, census):
    """Return what a reservation reserves beyond the requests of its owners."""
    users = users_of(reservation, census)
    used = sum((draw for _, draw in users), Counter())
    reserved = amounts_of(reservation.status.allocatable)
    inner = amounts_of(inner_reserved(reservation)) & reserved
    held = Counter({k: max(t, used[k] + inner[k]) - used[k] for k, t in reserved.items()})
    held["pods"] = max(0, reserved.get("pods", 1) - len(users))
    return held


def left_of(reservation, census):
    """Return what an owner may still use."""
    used = sum((draw for _, draw in users_of(reservation, census)), Counter())
    reserved = amounts_of(reservation.status.allocatable)
    kept = used + (amounts_of(inner_reserved(reservation)) & reserved)
    return +Counter({k: t - kept[k] for k, t in reserved.items()})


def free_on(node, census):
    """Return what is neither requested nor reserved on a node."""
    free = Counter(amounts_of(census.nodes[node].status.allocatable))
    for pod in census.on(node):
        free.subtract(request_of(pod))
    for reservation in census.held_on(node):
        free.subtract(held_beside(reservation, census))
    return free


def owns(pod, reservation):
    """Return whether a pod is an owner of a reservation."""
    return any(rule.owns(pod) for rule in compile_owners(reservation) or ())


def owned_once(pod, reservation):
    """Return whether it is an owner, or was one before an edit: then it may stay."""
    apps = {pod.metadata.labels.get("app"), *owners_before(pod)}
    rules = [
        owner.label_selector.match_labels["app"]
        for owner in reservation.spec.owners
        if owner.label_selector is not None
    ]
    return bool(apps & {*rules, *owners_before(reservation)}) or owns(pod, reservation)


def broken_promises(census):
    """Describe every invariant that does not hold; also after faults and restarts."""
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
    """I1, I2 and I4: pods and reservations together do not exceed the allocatable of a node.

    A pod that ignores reservations may use reserved resources; all pods together must fit.
    """
    for node in census.nodes:
        there = census.on(node)
        excused = sum((request_of(p) for p in there if ignores(p)), Counter())
        for reservation in census.held_on(node):
            # Resources that pods still use: only those pods count.
            if reservation.phase == "Waiting":
                excused += held_beside(reservation, census)
        for resource, amount in free_on(node, census).items():
            if amount + excused[resource] < 0 and not of_devices(resource):
                yield f"{node} lacks {-amount} of {resource}"
        has = amounts_of(census.nodes[node].status.allocatable)
        for resource, amount in sum(map(request_of, there), Counter()).items():
            if amount > has[resource] and not of_devices(resource):
                yield f"{node} has {has[resource]} of {resource}, pods take {amount}"


def of_devices(resource):
    """Return whether devices serve a resource: the Node may not list it."""
    return is_extended_by_class(resource) or is_of_devices(resource)


def is_extended_by_class(resource):
    """Return whether devices of a class serve a resource, by either of its names."""
    return resource == GPU or resource.startswith(DEVICE_CLASS_PREFIX)


def leaves_room_to(pod, reservation):
    """Return whether the reservation may pre-allocate the pod's resources."""
    policy = reservation.spec.pre_allocation_policy
    chosen = reservation.spec.pre_allocation and policy is not None and policy.mode == "Cluster"
    return chosen and pod.metadata.labels.get(OFFERED) == "true"


def ignores(pod):
    """Return whether a pod is marked to ignore reservations."""
    return pod.metadata.labels.get(IGNORED) == "true"


def ports_of(spec):
    """Return the host ports of a pod, or of a reservation's template."""
    return {port.host_port for c in spec.containers for port in c.ports if port.host_port}


def _drawn_by_strangers(census):
    for reservation in census.reservations:
        for pod in census.standing:
            theirs = owned_once(pod, reservation) or leaves_room_to(pod, reservation)
            if draw_of(pod, reservation) is not None and not theirs:
                yield f"{pod.name} draws on {reservation.name}, which is not for it"


def _drawn_beyond(census):
    """Owners of a Restricted reservation use no more than it has."""
    for reservation in census.reservations:
        # Owners keep what they use when the reservation becomes Restricted or smaller later.
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
    """A host port has one pod per node; a reserved one only owners."""
    for node in census.nodes:
        seen = {}
        for pod in census.on(node):
            for port in ports_of(pod.spec):
                if port in seen:
                    yield f"{pod.name} and {seen[port]} share port {port} of {node}"
                seen[port] = pod.name
            for reservation in census.held_on(node):
                if PREEMPTOR in reservation.metadata.labels:
                    continue  # a victim may have the port until it has stopped
                kept = ports_of(reservation.spec.template.spec)
                if kept & ports_of(pod.spec) and not (owned_once(pod, reservation) or ignores(pod)):
                    yield f"{pod.name} stands on a port of {reservation.name}"


def _too_near(census):
    """Required anti-affinity holds between pods, and between reservations and other pods."""
    for node in census.nodes:
        apart = [p for p in census.on(node) if "apart" in p.metadata.labels]
        reserved = [r for r in census.held_on(node) if "apart" in r.metadata.labels]
        if len(apart) > 1 and any(pod.spec.affinity for pod in apart):
            yield f"{[p.name for p in apart]} are together on {node}"
        for pod in apart:
            for reservation in reserved:
                if not (owned_once(pod, reservation) or ignores(pod)):
                    yield f"{pod.name} is near {reservation.name} on {node}"


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
    """Return the claims that a bound pod must have."""
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    named = [
        entry.resource_claim_name or made.get(entry.name, "") for entry in pod.spec.resource_claims
    ]
    if any(map(is_extended_by_class, pod_request(pod).amounts)):
        made = pod.status.extended_resource_claim_status
        named.append(made.resource_claim_name if made else "")
    return named
