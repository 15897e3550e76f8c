"""What must be true of a cluster, read off its API objects alone, in the slowest obvious way."""

from collections import Counter
from dataclasses import dataclass

from holdfast.api.quantity import milli, units
from holdfast.api.requests import pod_request
from holdfast.api.scheme import NODES, PODS, RESERVATIONS, RESOURCE_CLAIMS, RESOURCE_POLICIES
from holdfast.capacity.annotations import allocated_of, draws_of, inner_reserved
from holdfast.capacity.owners import compile_owners
from laws.cluster_edits import POLICY, REUSABLE, SIZE, owners_before, was

IGNORED = "scheduling.koordinator.sh/reservation-ignored"
GPU = "example.com/gpu"
"""No node has any: devices serve it."""
OFFERED = "pod.koordinator.sh/is-pre-allocatable"
HOLDING = ("Available", "Waiting")


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
