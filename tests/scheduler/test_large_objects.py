"""Objects with very long lists, as other API servers accept them, do not stop the scheduler."""

import asyncio
import sys

import numpy as np
import pytest

from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import schedule_pod
from holdfast.state.columns import pod_info as pod_info_module
from holdfast.testing import a_node, a_pod, a_reservation, typed
from holdfast.testing.harness import Harness
from scheduler.odd_objects import ChangingTransport, Scene, put

HANG = 60.0
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def select(i):
    return {"matchLabels": {f"k{i}": "v"}}


def spread(count, when="DoNotSchedule"):
    return [
        {"maxSkew": 1, "topologyKey": f"k{i}", "whenUnsatisfiable": when,
         "labelSelector": select(i)}
        for i in range(count)
    ]  # fmt: skip


def terms(count):
    return [{"topologyKey": f"t{i}", "labelSelector": select(i)} for i in range(count)]


def preferred(count):
    return [{"weight": 1, "podAffinityTerm": term} for term in terms(count)]


def absent(count):
    return [{"key": f"k{i}", "operator": "DoesNotExist"} for i in range(count)]


def containers(count, **more):
    return [{"name": f"c{i}", "image": f"i{i}", **more} for i in range(count)]


def many_resources(count=9000):
    return {f"example.com/r{i}": "1" for i in range(count)}


LISTS = {
    "spread": lambda n: {"topology_spread_constraints": spread(n)},
    "soft spread": lambda n: {"topology_spread_constraints": spread(n, "ScheduleAnyway")},
    "pod affinity": lambda n: {"affinity": {"podAffinity": {REQUIRED: terms(n)}}},
    "pod anti-affinity": lambda n: {"affinity": {"podAntiAffinity": {REQUIRED: terms(n)}}},
    "preferred pods": lambda n: {"affinity": {"podAffinity": {PREFERRED: preferred(n)}}},
    "node terms": lambda n: {"affinity": {"nodeAffinity": {REQUIRED: {
        "nodeSelectorTerms": [{"matchExpressions": [one]} for one in absent(n)]}}}},
    "node expressions": lambda n: {"affinity": {"nodeAffinity": {REQUIRED: {
        "nodeSelectorTerms": [{"matchExpressions": absent(n)}]}}}},
    "preferred nodes": lambda n: {"affinity": {"nodeAffinity": {PREFERRED: [
        {"weight": 1, "preference": {"matchExpressions": [one]}} for one in absent(n)]}}},
    "node selector": lambda n: {"node_selector": {f"k{i}": "v" for i in range(n)}},
    "tolerations": lambda n: {"tolerations": [{"key": f"k{i}", "operator": "Exists"}
                                              for i in range(n)]},
    "containers": lambda n: {"containers": containers(n)},
    "init containers": lambda n: {"init_containers": containers(n, restartPolicy="Always")},
    "host ports": lambda n: {"containers": [{"name": "c", "image": "i", "ports": [
        {"containerPort": i, "hostPort": i} for i in range(1, n + 1)]}]},
    "requests": lambda n: {"requests": many_resources(n)},
    "claims": lambda n: {"claims": [{"name": f"c{i}", "resourceClaimName": f"r{i}"}
                                    for i in range(n)]},
    "volumes": lambda n: {"volumes": [{"name": f"v{i}", "persistentVolumeClaim": {
        "claimName": f"c{i}"}} for i in range(n)]},
    "owners": lambda n: {"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "X", "name": f"o{i}", "uid": f"u{i}"} for i in range(n)]}},
    "labels": lambda n: {"labels": {f"k{i}": "v" for i in range(n)}},
}  # fmt: skip


def a_world():
    world = World()
    for i in range(8):
        world.upsert(typed(a_node(f"n{i}", labels={"zone": f"z{i % 3}"})))
        world.upsert(typed(a_pod(f"p{i}", node=f"n{i}", labels={"app": "web", "x": str(i)})))
    return world


def calls_to_decide(raw):
    """Count the function calls to add a pod, to schedule it and to handle it bound."""
    world, pod = a_world(), typed(raw)
    bound = typed({**raw, "metadata": {**raw["metadata"], "name": "bound"},
                   "spec": {**raw["spec"], "nodeName": "n1"}})  # fmt: skip
    profile = default_profiles()["default-scheduler"]
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        schedule_pod(
            profile, profile.view(world.pod_info(pod), world, 0.0), np.random.default_rng(1)
        )
        world.upsert(bound)
        plain = world.pod_info(typed(a_pod("plain", labels={"app": "web"})))
        schedule_pod(profile, profile.view(plain, world, 0.0), np.random.default_rng(1))
        world.delete(bound)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("lists", LISTS.values(), ids=LISTS)
def test_the_work_grows_no_faster_than_the_list(monkeypatch, lists):
    """This also holds beyond the limit: a bound pod may have any number of entries."""
    monkeypatch.setattr(pod_info_module, "_excess", lambda *_: "")
    few, many = (calls_to_decide(a_pod("odd", **lists(count))) for count in (300, 600))
    assert many < 2.5 * few


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (put("spec.topologySpreadConstraints", spread(8000)),
         "spec.topologySpreadConstraints: Too many: 8000: must have at most 128 items"),
        (put("spec.affinity", {"podAffinity": {REQUIRED: terms(8000)}}),
         f"spec.affinity.podAffinity.{REQUIRED}: Too many: 8000: must have at most 64 items"),
        (put("spec.containers", containers(5000)),
         "spec.containers: Too many: 5000: must have at most 512 items"),
        (put("spec.containers.0.resources.requests", many_resources()),
         "spec.containers[0].resources.requests: Too many: 9000: must have at most 256 items"),
        (put("spec.nodeSelector", {f"k{i}": "v" for i in range(9000)}),
         "spec.nodeSelector: Too many: 9000: must have at most 128 items"),
    ],
    ids=["spread", "affinity", "containers", "requests", "node selector"],
)  # fmt: skip
async def test_a_pod_with_a_too_long_list_stays_pending_and_others_do_not(tmp_path, spoil, reason):
    async with (
        asyncio.timeout(HANG),
        Harness(tmp_path, wrap=lambda inner, _clock: ChangingTransport(inner, spoil)) as cluster,
    ):
        await cluster.create(a_node("n"), settle=False)
        await cluster.create(a_pod("odd"), a_pod("good"))
        assert await cluster.node_of("good") == "n"
        assert await cluster.node_of("odd") == ""
        assert await cluster.why("odd") == f"0/1 nodes are available: {reason}."
        await cluster.restart_components()
        await cluster.create(a_pod("later"))
        assert await cluster.node_of("later") == "n"


def test_a_node_with_a_too_long_list_gets_no_row(caplog):
    scene = Scene()
    node = a_node("odd")
    node["status"]["allocatable"] = many_resources()
    scene.handlers.on_node("added", None, typed(node))
    assert list(scene.world.nodes.row_of) == ["n"]
    assert "Too many: 9000: must have at most 512 items" in caplog.text


def test_requests_of_many_containers_are_counted_together():
    asked = [{"requests": {f"example.com/{i}-{j}": "1" for j in range(50)}} for i in range(20)]
    listed = [{"name": f"c{i}", "image": "i", "resources": one} for i, one in enumerate(asked)]
    pod_info = a_world().pod_info(typed(a_pod(containers=listed)))
    assert pod_info.excess == (
        "spec.containers[*].resources.requests: Too many: 1000: must have at most 512 items"
    )


def test_a_bound_pod_that_requests_thousands_of_resources_adds_no_columns():
    scene = Scene()
    before = scene.world.nodes.amounts.width
    scene.handlers.on_pod("added", None, typed(a_pod("odd", requests=many_resources(), node="n")))
    assert (scene.requested_amount(), scene.world.nodes.amounts.width) == (1000, before)


def test_a_reservation_with_a_too_long_list_is_rejected_with_its_field():
    scene = Scene()
    raw = a_reservation("r", owners=[{"object": {"name": f"p{i}"}} for i in range(5000)])
    scene.reservations.on_reservation("added", None, typed(raw | {"status": {"phase": "Pending"}}))
    assert scene.rejected == [("r", "spec.owners: Too many: 5000: must have at most 256 items")]
    held = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "2"}}
    scene.reservations.on_reservation("added", None, typed(raw | {"status": held}))
    assert scene.requested_amount() == 0


def test_labels_that_no_node_has_share_one_column():
    """Selectors may name any number of labels; a node that gets one later is matched."""
    world = a_world()
    profile, selector = default_profiles()["default-scheduler"], {"absent-1": "yes"}
    for i in range(3):
        pod = typed(a_pod(f"q{i}", node_selector={f"absent-{i}": "yes"}))
        schedule_pod(
            profile, profile.view(world.pod_info(pod), world, 0.0), np.random.default_rng(1)
        )
    columns = [world.nodes.label_column(f"absent-{i}") for i in range(3)]
    assert columns[0].ids is columns[1].ids is columns[2].ids
    world.upsert(typed(a_node("n1", labels=selector)))
    assert (columns[1].ids >= 0).sum() == 1
    assert columns[0].ids is columns[2].ids
    assert (columns[0].ids < 0).all()
    pod = typed(a_pod("finds", node_selector=selector))
    placement = schedule_pod(
        profile, profile.view(world.pod_info(pod), world, 0.0), np.random.default_rng(1)
    )
    assert placement.node == "n1"
    for i in range(70):
        world.upsert(typed(a_node(f"more-{i}", labels={"absent-2": "yes"} if i == 69 else {})))
    assert (columns[0].ids < 0).all() and len(columns[0].ids) == world.nodes.capacity
    assert [int((column.ids >= 0).sum()) for column in columns] == [0, 1, 1]
