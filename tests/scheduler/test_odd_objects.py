"""Invalid objects do not keep the scheduler from handling other objects."""

import pytest

from holdfast.api import reservation_names as names
from holdfast.api.scheme import NODES, PODS
from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.state.columns.amounts import MAX_AMOUNT
from holdfast.state.columns.interner import CPU, MEMORY
from holdfast.testing import a_node, a_pod, a_reservation, typed
from holdfast.testing.harness import Harness
from scheduler.odd_objects import ChangingTransport, Scene, put

OWNERS = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
HELD = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "2"}}


@pytest.fixture
def scene():
    return Scene()


def available(*, annotations=None, labels=None, allocatable=None):
    raw = a_reservation("r", owners=OWNERS, annotations=annotations, labels=labels)
    status = HELD | ({"allocatable": allocatable} if allocatable else {})
    return typed(raw | {"status": status})


ODD = ["5", '{"resources": 5}', '{"resources": "cpu"}', '{"resources": [["cpu"]]}',
       '{"resources": {"cpu": "many"}}', '{"resources": {"cpu": {}}}',
       '{"resources": {"cpu": null}}', '{"resources": {"cpu": "-1"}}']  # fmt: skip


@pytest.mark.parametrize("key", [names.INNER_RESERVED, names.RESTRICTED_OPTIONS, names.RESIZE])
@pytest.mark.parametrize("text", ODD)
def test_an_invalid_annotation_of_a_reservation_is_ignored(scene, key, text):
    scene.reservations.on_reservation("added", None, available(annotations={key: text}))
    assert scene.requested_amount() == 2000
    [info] = scene.world.reservations
    assert (info.remaining(CPU), info.restricted) == (2000, frozenset({CPU}))


@pytest.mark.parametrize("text", ["1" + "0" * 30, "first", "1_0", ""])
def test_an_invalid_order_label_is_ignored(scene, text):
    scene.reservations.on_reservation("added", None, available(labels={names.ORDER: text}))
    [info] = scene.world.reservations
    assert info.order == 0


@pytest.mark.parametrize("text", ["9" * 40, str(2**31), "high"])
def test_an_invalid_priority_label_is_ignored(scene, text):
    raw = a_reservation("r", owners=OWNERS, labels={names.PRIORITY: text})
    scene.reservations.on_reservation("added", None, typed(raw | {"status": {"phase": "Pending"}}))
    assert scene.queue.pop(0.0).pod_info.priority == 2**31 - 1


@pytest.mark.parametrize("text", ['{"resourceNames": 5}', '{"resourceNames": [["cpu"]]}', "5"])
def test_an_invalid_exact_match_annotation_matches_no_reservation(scene, text):
    scene.reservations.on_reservation("added", None, available())
    notes = {names.EXACT_MATCH: text}
    owner = scene.world.pod_info(typed(a_pod("p", labels={"app": "web"}, annotations=notes)))
    assert scene.world.match(owner) is None


@pytest.mark.parametrize("amount", ["many", "", "-1"])
def test_an_invalid_allocation_of_a_pod_is_ignored(scene, amount):
    draws = f'[{{"uid": "uid-reservation--r", "resources": {{"cpu": "{amount}"}}}}]'
    scene.reservations.on_reservation("added", None, available())
    scene.handlers.on_pod(
        "added", None, typed(a_pod("p", node="n", annotations={names.DRAWS: draws}))
    )
    assert scene.requested_amount() == 3000
    check_invariants(scene.world)


def test_a_reservation_that_becomes_invalid_keeps_its_resources(scene, caplog):
    before, after = available(), available(allocatable={"cpu": "many"})
    scene.reservations.on_reservation("added", None, before)
    scene.reservations.on_reservation("modified", before, after)
    assert scene.requested_amount() == 2000
    assert "on_reservation r: " in caplog.text
    scene.reservations.on_reservation("deleted", after, None)
    assert scene.requested_amount() == 0
    check_invariants(scene.world)


def test_an_invalid_node_gets_no_row(scene, caplog):
    scene.handlers.on_node("added", None, typed(a_node("odd", cpu="many")))
    assert list(scene.world.nodes.row_of) == ["n"]
    assert "on_node odd: " in caplog.text


def test_an_invalid_pod_is_left_out(scene, caplog):
    scene.handlers.on_pod("added", None, typed(a_pod("odd", cpu="many")))
    scene.handlers.on_pod("added", None, typed(a_pod("odd2", cpu="many", node="n")))
    scene.handlers.on_pod("added", None, typed(a_pod("good", node="n")))
    assert (len(scene.queue), scene.requested_amount()) == (0, 1000)
    assert "on_pod default/odd: " in caplog.text


def test_huge_amounts_do_not_overflow(scene):
    for i in range(5):
        pod = typed(a_pod(f"p{i}", cpu="9E", memory="9E", node="n"))
        scene.handlers.on_pod("added", None, pod)
    assert scene.requested_amount(MEMORY) == 5 * (MAX_AMOUNT + 1)
    scene.handlers.on_node("added", None, typed(a_node("huge", memory="9E")))
    row = scene.world.nodes.row_of["huge"]
    asked = dict(scene.world.pod_info(typed(a_pod(memory="9E"))).request)[MEMORY]
    assert asked > scene.world.nodes.allocatable[MEMORY, row]


async def test_a_scheduler_whose_informer_failed_is_unhealthy(tmp_path, monkeypatch):
    async with Harness(tmp_path) as cluster:
        scheduler = cluster.components.scheduler
        assert scheduler.healthy
        nodes = scheduler.informers.informer_set.get(NODES)
        monkeypatch.setattr(nodes._objects, "put", lambda *_: 1 / 0)
        await cluster.create(a_node("n"))
        assert not scheduler.healthy
        with pytest.raises(ZeroDivisionError):
            await scheduler.wait()


async def test_an_error_of_a_handler_does_not_stop_the_scheduler(tmp_path, monkeypatch):
    async with Harness(tmp_path) as cluster:
        scheduler = cluster.components.scheduler
        taken_in = scheduler.world.nodes.pod_info

        def bug(pod, *, is_reserve_pod=False):
            if pod.name == "odd":
                raise ZeroDivisionError("a bug")
            return taken_in(pod, is_reserve_pod=is_reserve_pod)

        monkeypatch.setattr(scheduler.world.nodes, "pod_info", bug)
        await cluster.create(a_node("n"), settle=False)
        names = ("before", "odd", "after")
        for name in names:
            await cluster.create(a_pod(name), settle=False)
        await cluster.clock.settle()
        assert [await cluster.node_of(name) for name in names] == ["n", "", "n"]
        assert scheduler.healthy
        assert scheduler.informers.informer_set.error_counts() == {("pods", "failed"): 1}
        assert "ZeroDivisionError: a bug" in cluster.failures.pop()
        monkeypatch.undo()
        await cluster.client.patch(PODS, "odd", {"metadata": {"labels": {"a": "b"}}}, "default")
        await cluster.settle()
        assert await cluster.node_of("odd") == "n"


def with_unknown_fields(obj):
    """Add unknown fields at every level; maps of strings have no fields."""
    pairs = list(obj.items()) if isinstance(obj, dict) else enumerate(obj)
    for key, value in pairs:
        if isinstance(value, dict | list) and key not in ("requests", "labels", "annotations"):
            with_unknown_fields(value)
    if isinstance(obj, dict):
        obj["fromTheFuture"] = {"what": [1, None, "is"], "this": True}


WRONG_TYPES = [
    put("spec.containers", "none"), put("spec.containers.0.resources", 5),
    put("spec.priority", "high"), put("spec.affinity", []), put("spec.tolerations", {"a": 1}),
    put("metadata.labels", ["a"]), put("metadata.ownerReferences", 7), put("spec", None),
    put("status.conditions", "fine"), put("metadata.deletionTimestamp", 12),
    put("spec.containers.0.ports", [{"hostPort": "http"}]), put("spec.nodeSelector", [1]),
]  # fmt: skip
NONSENSE = [
    put("spec.containers.0.resources.requests.cpu", "many"),
    put("spec.containers.0.resources.requests.cpu", "-1"),
    put("spec.overhead", {"cpu": "1zz"}),
    put("spec.affinity", {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "", "labelSelector": {"matchExpressions": [
            {"key": "a", "operator": "Resembles"}]}}]}}),
    put("spec.affinity", {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Resembles"}]}]}}}),
    put("spec.topologySpreadConstraints", [{"maxSkew": -1, "topologyKey": "", "whenUnsatisfiable":
        "Whatever", "labelSelector": {"matchLabels": {"a": "b"}}}]),
    put("spec.tolerations", [{"operator": "Resembles", "effect": "Sometimes"}]),
    put("spec.volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]),
    put("spec.resourceClaims", [{"name": "c"}]),
]  # fmt: skip


@pytest.mark.parametrize(
    "spoil", [*WRONG_TYPES, *NONSENSE, with_unknown_fields], ids=lambda s: s.__name__
)
async def test_no_pod_stops_the_scheduler_whatever_its_fields(tmp_path, spoil):
    """Neither while it is pending nor, after a restart, while all pods are listed."""
    async with Harness(
        tmp_path, wrap=lambda inner, _clock: ChangingTransport(inner, spoil)
    ) as cluster:
        await cluster.create(a_node("n"), settle=False)
        await cluster.create(a_pod("odd"), a_pod("good"))
        await cluster.advance(10)
        assert await cluster.node_of("good") == "n"
        await cluster.restart_components()
        await cluster.create(a_pod("later"))
        await cluster.advance(10)
        assert await cluster.node_of("later") == "n"
        assert cluster.components.scheduler.healthy
        if spoil is with_unknown_fields:
            assert await cluster.node_of("odd") == "n"
