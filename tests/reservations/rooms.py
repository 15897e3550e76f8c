"""What the stories are made of: one sort of node, owners, strangers, and room held for owners."""

import msgspec

from holdfast.testing import a_node, a_pod, a_reservation

PREFIX = "scheduling.koordinator.sh"
ALLOCATED = f"{PREFIX}/reservation-allocated"
AFFINITY = f"{PREFIX}/reservation-affinity"
DRAWS = "scheduling.holdfast.dev/reservation-draws"
WEB = {"app": "web"}


def node(name="n1", cpu="16", memory="32Gi", **more):
    """16 CPUs, 32Gi, 110 pods."""
    return a_node(name, cpu=cpu, memory=memory, **more)


def held(name="r", *, ports=(), **more):
    """A reservation for owners; ``ports`` are host ports."""
    template = {**more.pop("template", {}), **_ports(ports, more)}
    if "owners" not in more:
        more.setdefault("owner_labels", WEB)
    return a_reservation(name, template=template, **more)


def owner(name="owner", *, wish=None, **more):
    """A pod the reservations are for; ``wish`` is its reservation affinity."""
    return stranger(name, wish=wish, labels={**WEB, **more.pop("labels", {})}, **more)


def stranger(name="stranger", *, ports=(), wish=None, **more):
    """A pod that owns nothing."""
    notes = dict(more.pop("annotations", {}))
    if wish is not None:
        notes[AFFINITY] = wish if isinstance(wish, str) else msgspec.json.encode(wish).decode()
    return a_pod(name, annotations=notes, **{**more, **_ports(ports, more)})


def filler(cpu, name="used", node="n1", **more):
    """A pod that is there already."""
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


async def given(cluster, *objects):
    """Create objects one after the other, each once everybody has reacted to the last."""
    for obj in objects:
        await cluster.create(obj)


async def drawn_from(cluster, pod, namespace="default"):
    """The reservation a pod says it was allocated from, or None."""
    notes = (await cluster.pod(pod, namespace)).metadata.annotations
    return msgspec.json.decode(notes[ALLOCATED])["name"] if ALLOCATED in notes else None


async def draws(cluster, pod):
    """What a pod says it drew from each of several, by name."""
    notes = (await cluster.pod(pod)).metadata.annotations
    return {draw["name"]: draw["resources"] for draw in msgspec.json.decode(notes[DRAWS])}


async def status(cluster, name="r"):
    """(phase, allocated, names of current owners) of a reservation."""
    found = (await cluster.reservation(name)).status
    return found.phase, dict(found.allocated), sorted(o.name for o in found.current_owners)


async def waits(cluster, name):
    """Whether a pod is on no node."""
    return await cluster.node_of(name) == ""


def requested(cluster, resource=0, name="n1"):
    """What the scheduler believes is taken or held on a node."""
    nodes = cluster.world.nodes
    return int(nodes.requested[resource, nodes.row_of[name]])
