"""Koordinator's tables of the reservations that match a pod."""

from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.node_affinity import NodeAffinityPlugin
from holdfast.scheduling.plugins.reservation.diagnosis import count_reservations
from holdfast.state.columns.interner import CPU, MEMORY
from parity.harness import parity
from parity.reserving import a_user, asked_for, asking_for, reservation
from parity.scheduling import asked, node, pod

FILE = "koord_reservation_match.jsonl"


def the_world(given):
    world = World()
    world.upsert(node(given["node"]))
    for raw in given["reservations"]:
        # Go's owners of some match none of the rules: the status says that they are owners.
        users = [{"uid": f"uid-{entry['pod']['metadata']['name']}"}
                 for entry in given.get("assignedPods") or ()
                 if entry["reservation"] == raw["metadata"]["name"]]  # fmt: skip
        status = {**(raw.get("status") or {}), "currentOwners": users}
        world.upsert(reservation({**raw, "status": status}))
    for i, raw in enumerate(given.get("pods") or ()):
        world.upsert(pod(raw, uid=raw["metadata"].get("uid") or f"pod-{i}"))
    by_name = {info.reservation.name: info.reservation for info in world.reservations}
    for entry in given.get("assignedPods") or ():
        raw = entry["pod"]
        requests = {}
        for container in raw["spec"].get("containers") or ():
            requests = container["resources"]["requests"]
        name, where = raw["metadata"]["name"], raw["spec"]["nodeName"]
        world.upsert(a_user(name, where, requests, by_name[entry["reservation"]]))
    return world


def reaches(world, raw, where):
    """Return whether the node affinity of a pod allows the node."""
    found = asked(NodeAffinityPlugin({}), raw, world)
    if found.narrowed_to is not None:
        return where in found.narrowed_to
    return found.filter(where)["code"] == "Success"


@parity(FILE, "TestBeforePreFilterWithReservationAffinity", "TestBeforePreFilterWithNodeAffinity")
def test_owners(record):
    """A reservation matches on the nodes that the pod's node affinity allows."""
    given = record.input
    world, where = the_world(given), given["node"]["metadata"]["name"]
    match = world.match(world.pod_info(pod(given["pod"], uid="incoming")))
    matched = match is not None and world.nodes.row_of[where] in match.rows
    restored = matched and reaches(world, given["pod"], where)
    assert restored is record.expected["wantRestored"]


@parity(FILE, "TestBeforePreFilterForReservePod")
def test_reserve_pods(record):
    """No reservation matches another reservation; the owners' requests count once."""
    given = record.input
    world, where = the_world(given), given["node"]["metadata"]["name"]
    pod_info = world.pod_info(pod(given["pod"]), is_reserve_pod=True)
    assert world.match(pod_info) is None
    there = world.reservations.on_row(world.nodes.row_of[where])
    restored = bool(there) and reaches(world, given["pod"], where)
    assert restored is record.expected["wantRestored"]


@parity(FILE, "TestBeforePreFilterForReservationPreAllocation")
def test_pre_allocatable_pods(record):
    """Pre-allocatable pods count on the nodes that the reservation's affinity allows."""
    given, want = record.input, record.expected
    # Go checks the requests later; a pod without requests is not pre-allocatable.
    pods = [asking_for(raw, {"cpu": "1"}) for raw in given["pods"]]
    world, where = the_world({**given, "pods": pods, "assignedPods": ()}), given["node"]
    where, incoming = where["metadata"]["name"], given["incomingReservation"]
    world.upsert(reservation(incoming))
    row = world.nodes.row_of[where]
    plan = asked_for(incoming["metadata"]["uid"], given["pod"], world).prepared.plan
    there = plan.row_results().candidates.get(row, [])
    restored = bool(there or world.reservations.on_row(row)) and reaches(world, given["pod"], where)
    assert restored is want["wantRestored"]
    if restored:
        assert len(there) == want["wantPreAllocatable"]


@parity(FILE, "Test_parseSpecificNodesFromAffinity")
def test_named_nodes(record):
    world = World()
    for name in ("node1", "node2", "node3"):
        world.upsert(node({"metadata": {"name": name}}))
    affinity = record.input.get("nodeAffinity")
    spec = {"affinity": {"nodeAffinity": affinity}} if affinity else {}
    found = asked(NodeAffinityPlugin({}), {"metadata": {}, "spec": spec}, world)
    assert (found.prefilter["code"] not in ("Success", "Skip")) is record.expected["wantError"]
    want = record.expected["want"]
    assert found.narrowed_to == (want and set(want))


@parity(FILE, "TestRestoreReservation", "TestRestoreReservationWithLazyReservationRestore")
def test_restoring(record):
    given, want = record.input, record.expected
    world = the_world(given)
    nodes, row = world.nodes, world.nodes.row_of["test-node"]
    pod_info = world.pod_info(pod(given["pod"], uid="incoming"))
    match = world.match(pod_info)
    reservations = [world.reservations.at(int(slot)) for slot in match.slots]
    assert [info.reservation.name for info in reservations] == want["state"]["matched"]
    others = {info.reservation.name for info in world.reservations} - set(want["state"]["matched"])
    assert sorted(others) == want["state"]["unmatched"]
    for resource, name in ((CPU, "milliCPU"), (MEMORY, "memory")):
        # Go's node counts both an owner and its reserve pod until the reservation is restored.
        used = sum(info.allocated(resource) for info in world.reservations)
        taken = int(nodes.requested[resource, row])
        assert taken + used == want["nodeRequestedBefore"][name]
        assert taken == want["state"]["podRequested"][name]
        left = taken - sum(info.remaining(resource) for info in reservations)
        assert left == want["nodeRequestedAfter"][name]
        assert sum(info.allocated(resource) for info in reservations) == want["state"][
            "rAllocated"
        ].get(name, 0)
    hidden_pods = [
        pod for there in match.hidden_pods.with_ports_or_volumes.values() for pod in there
    ]
    hidden = [port for pod in hidden_pods for port in pod.host_ports]
    for address, ports in want["usedPortsAfter"].items():
        for port in ports:
            wanted = [(port["protocol"], port["port"], address)]
            assert nodes.ports.taken_at(row, wanted, hidden)
    seated = len(list(world.reservations)) - len(match.hidden_pods.rows)
    assert len(nodes.pods_on(row)) + seated == want["podCountAfter"]
    [counts] = count_reservations(world.reservations, pod_info, nodes).values()
    assert counts.owned == counts.left(0) == want["diagnosis"]["test-node"]["ownerMatched"]
