"""Nodes, owners, other pods and reservations for the stories."""

import msgspec

from holdfast.testing import a_node, a_pod, a_reservation

PREFIX = "scheduling.koordinator.sh"
ALLOCATED = f"{PREFIX}/reservation-allocated"
AFFINITY = f"{PREFIX}/reservation-affinity"
DRAWS = "scheduling.holdfast.dev/reservation-draws"
WEB = {"app": "web"}


def node(name="n1", cpu="16", memory="32Gi", **more):
    """A node of 16 CPUs, 32Gi and 110 pods."""
    return a_node(name, cpu=cpu, memory=memory, **more)


def held(name="r", *, ports=(), **more):
    """A reservation for owners; ``ports`` are host ports."""
    template = {**more.pop("template", {}), **_ports(ports, more)}
    if "owners" not in more:
        more.setdefault("owner_labels", WEB)
    return a_reservation(name, template=template, **more)


def owner(name="owner", *, reservation_affinity=None, **more):
    """A pod that the reservations have as owner."""
    return non_owner(
        name,
        reservation_affinity=reservation_affinity,
        labels={**WEB, **more.pop("labels", {})},
        **more,
    )


def non_owner(name="stranger", *, ports=(), reservation_affinity=None, **more):
    """A pod that owns no reservation."""
    notes = dict(more.pop("annotations", {}))
    if reservation_affinity is not None:
        notes[AFFINITY] = (
            reservation_affinity
            if isinstance(reservation_affinity, str)
            else msgspec.json.encode(reservation_affinity).decode()
        )
    return a_pod(name, annotations=notes, **{**more, **_ports(ports, more)})


def running(cpu, name="used", node="n1", **more):
    """A pod that is on a node already."""
    return a_pod(name, cpu=cpu, node=node, **more)


def _ports(ports, more):
    if not ports:
        return {}
    amounts = {"cpu": more.get("cpu", "1"), "memory": more.get("memory")}
    requests = {key: amount for key, amount in amounts.items() if amount is not None}
    container = {
        "name": "main", "image": "i", "resources": {"requests": requests},
        "ports": [{"containerPort": port, "hostPort": port} for port in ports],
    }  # fmt: skip
    return {"containers": [container]}


async def create_each(cluster, *objects):
    """Create objects one after the other; each time wait until all components are idle."""
    for obj in objects:
        await cluster.create(obj)


async def allocated_from(cluster, pod, namespace="default"):
    """Return the name of the reservation in a pod's annotation, or None."""
    notes = (await cluster.pod(pod, namespace)).metadata.annotations
    return msgspec.json.decode(notes[ALLOCATED])["name"] if ALLOCATED in notes else None


async def allocations(cluster, pod):
    """Return what a pod's annotation says it allocated from each reservation, by name."""
    notes = (await cluster.pod(pod)).metadata.annotations
    return {draw["name"]: draw["resources"] for draw in msgspec.json.decode(notes[DRAWS])}


async def status(cluster, name="r"):
    """Return (phase, allocated, names of current owners) of a reservation."""
    found = (await cluster.reservation(name)).status
    return found.phase, dict(found.allocated), sorted(o.name for o in found.current_owners)


async def ready(cluster, name="r"):
    """Return status and reason of a reservation's Ready condition."""
    found = (await cluster.reservation(name)).condition("Ready")
    return found.status, found.reason


async def is_pending(cluster, name):
    """Tell whether a pod has no node."""
    return await cluster.node_of(name) == ""


def requested(cluster, resource=0, name="n1"):
    """Return what is requested or held on a node in the scheduler's node table."""
    nodes = cluster.world.nodes
    return int(nodes.requested[resource, nodes.row_of[name]])
