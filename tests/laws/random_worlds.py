"""Small random clusters as objects: nodes, available reservations, pods.

Pods and reservations may want host ports, and may keep apart from, near to or even with others.
"""

import msgspec
from hypothesis import strategies as st

from holdfast.testing import a_node, a_pod, a_reservation, typed

PREFIX = "scheduling.koordinator.sh"
OFFERED = "pod.koordinator.sh/is-pre-allocatable"
INNER = "node.koordinator.sh/reservation"
DRAWS = "scheduling.holdfast.dev/reservation-draws"
NODES = ("n0", "n1", "n2")
APPS = ("a", "b")

sizes = st.sampled_from(("500m", "1", "2", "3", "5"))
memories = st.sampled_from((None, "1Gi", "3Gi"))
policies = st.sampled_from((None, "Aligned", "Restricted"))
ports = st.sampled_from(((), (), (), (80,), (81,), (80, 81)))
HOST = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@st.composite
def neighbourly(draw):
    """Affinity, anti-affinity and spread of a spec, by field."""
    term = {
        "labelSelector": {"matchLabels": {"tier": draw(st.sampled_from("xy"))}},
        "topologyKey": draw(st.sampled_from((HOST, "pool"))),
    }
    kind = draw(st.sampled_from(("", "", "near", "far", "wish", "even", "evenly")))
    if kind in ("near", "far"):
        side = "podAffinity" if kind == "near" else "podAntiAffinity"
        return {"affinity": {side: {_REQUIRED: [term]}}}
    if kind == "wish":
        return {"affinity": {"podAffinity": {_PREFERRED: [{"weight": 7, "podAffinityTerm": term}]}}}
    if kind in ("even", "evenly"):
        must = "DoNotSchedule" if kind == "even" else "ScheduleAnyway"
        return {"topologySpreadConstraints": [{**term, "maxSkew": 1, "whenUnsatisfiable": must}]}
    return {}


def with_ports(raw_spec, numbers):
    """The same spec with host ports."""
    [container] = raw_spec["containers"]
    listed = [{"containerPort": number, "hostPort": number} for number in numbers]
    return {**raw_spec, "containers": [{**container, "ports": listed}]}


@st.composite
def nodes(draw, name):
    """A node of a few CPUs and a few pod slots."""
    cpu, slots = draw(st.integers(2, 8)), draw(st.integers(1, 6))
    labels = {"pool": "a" if name == "n0" else "b"}
    return typed(a_node(name, cpu=str(cpu), memory="8Gi", pods=str(slots), labels=labels))


@st.composite
def pods(draw, name):
    """A pod that may own reservations, and may require one by affinity."""
    notes = {f"{PREFIX}/reservation-affinity": "{}"} if draw(st.integers(0, 4)) == 0 else {}
    labels = {"app": draw(st.sampled_from((*APPS, "none"))), "tier": draw(st.sampled_from("xyz"))}
    if draw(st.integers(0, 3)) == 0:
        labels[OFFERED] = "true"
    if draw(st.integers(0, 9)) == 0:
        labels[f"{PREFIX}/reservation-ignored"] = "true"
    cpu, memory = draw(sizes), draw(memories)
    made = a_pod(
        name, cpu=cpu, memory=memory, labels=labels, annotations=notes, **draw(neighbourly())
    )
    return typed({**made, "spec": with_ports(made["spec"], draw(ports))})


inheriting = st.one_of(
    st.just({}),
    st.just({}),
    st.builds(
        lambda mode, several: {
            "pre_allocation": True,
            "pre_allocation_policy": {"mode": mode, "enableMultiple": several},
        },
        st.sampled_from(("Default", "Cluster")),
        st.booleans(),
    ),
)


@st.composite
def reservations(draw, name):
    """A reservation without a node."""
    notes = {}
    if draw(st.integers(0, 3)) == 0:
        notes[INNER] = '{"resources":{"cpu":"1"}}'
    if draw(st.integers(0, 5)) == 0:
        notes[f"{PREFIX}/reservation-resize-allocatable"] = '{"resources":{"cpu":"3"}}'
    made = a_reservation(
        name, cpu=draw(sizes), memory=draw(memories), annotations=notes,
        owner_labels={"app": draw(st.sampled_from(APPS))}, allocate_once=draw(st.booleans()),
        allocate_policy=draw(policies), labels={"tier": draw(st.sampled_from("xyz"))},
        template=draw(neighbourly()), **draw(inheriting),
    )  # fmt: skip
    template = made["spec"]["template"]
    spec = {**template, "spec": with_ports(template["spec"], draw(ports))}
    return typed({**made, "spec": {**made["spec"], "template": spec}})


@st.composite
def held(draw, name):
    """An available reservation on one of the nodes."""
    pending = draw(reservations(name))
    requests = pending.spec.template.spec.containers[0].resources.requests
    node = draw(st.sampled_from(NODES))
    return on_its_node(pending, node, requests)


def on_its_node(reservation, node, allocatable, phase="Available"):
    """Return the reservation as it is when it is placed."""
    status = type(reservation.status)(phase=phase, node_name=node, allocatable=dict(allocatable))
    return replaced(reservation, status=status)


@st.composite
def standing(draw, name, reservations):
    """A bound pod, which uses none, one or two of the reservations on its node."""
    pod = draw(pods(name))
    node = draw(st.sampled_from(NODES))
    there = [r for r in reservations if r.status.node_name == node]
    chosen = draw(st.lists(st.sampled_from(there), max_size=2, unique_by=_uid)) if there else []
    notes = {}
    if chosen:
        first = chosen[0]
        notes[f"{PREFIX}/reservation-allocated"] = f'{{"name":"{first.name}","uid":"{first.uid}"}}'
    if len(chosen) == 2:
        parts = [f'{{"uid":"{r.uid}","resources":{{"cpu":"{draw(sizes)}"}}}}' for r in chosen]
        notes[DRAWS] = f"[{','.join(parts)}]"
    return bound(pod, node, notes)


def bound(pod, node, notes):
    """Return the pod as it is when it is bound, with the scheduler's annotations."""
    meta = replaced(pod.metadata, annotations={**pod.metadata.annotations, **notes})
    return replaced(pod, metadata=meta, spec=replaced(pod.spec, node_name=node))


@st.composite
def clusters(draw):
    """Objects of a cluster in the order in which the scheduler reads them at start."""
    there = [draw(nodes(name)) for name in NODES]
    held_there = [draw(held(f"r{i}")) for i in range(draw(st.integers(0, 5)))]
    pending = [draw(reservations("pending"))]
    placed = [draw(standing(f"p{i}", held_there)) for i in range(draw(st.integers(0, 6)))]
    return [*there, *held_there, *pending, *placed]


def replaced(struct, **fields):
    """Return a copy of a struct with some fields changed."""
    return msgspec.structs.replace(struct, **fields)


def _uid(obj):
    return obj.uid


def renamed(obj, name):
    """Return the object with another name."""
    return replaced(obj, metadata=replaced(obj.metadata, name=name, uid=f"uid-{name}"))


def raw(obj):
    """Return an object as plain JSON values."""
    return msgspec.json.decode(msgspec.json.encode(obj))


edits = st.one_of(
    st.fixed_dictionaries({"owners": st.sampled_from(APPS)}),
    st.fixed_dictionaries({"allocate_policy": st.sampled_from(("", "Aligned", "Restricted"))}),
    st.fixed_dictionaries({"unschedulable": st.booleans()}),
    st.just({"allocate_once": False}),
    st.fixed_dictionaries({"phase": st.sampled_from(("Failed", "Succeeded"))}),
)
"""Ways in which a placed reservation may change."""


def edited(reservation, change):
    """Return the reservation as it is after an edit, or after its end."""
    change = dict(change)
    if "phase" in change:
        status = replaced(reservation.status, phase=change["phase"])
        return replaced(reservation, status=status)
    if "owners" in change:
        made = a_reservation(owner_labels={"app": change["owners"]})
        change["owners"] = typed(made).spec.owners
    spec = replaced(reservation.spec, **change)
    return replaced(reservation, spec=spec)
