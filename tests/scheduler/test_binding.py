"""How a decision leaves the house when the network is bad: nothing lost, nothing held for ever."""

import numpy as np
import pytest

from holdfast.api.scheme import PODS, RESERVATIONS, RESOURCE_CLAIMS
from holdfast.columns.interner import CPU
from holdfast.framework.plugin import Call, Code, Placement, Reject
from holdfast.framework.profile import Profile
from holdfast.framework.world import World
from holdfast.plugins import default_profiles
from holdfast.plugins.default_binder import DefaultBinder
from holdfast.scheduler.binding import BindFailed, Driver, bind, undo
from holdfast.scheduler.cycle import attempt, hold, release
from holdfast.testing import (
    Fault,
    FaultyTransport,
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_reservation,
    a_slice,
    typed,
)
from holdfast.testing.harness import Harness

BINDING = {"method": "POST", "path": "/binding"}
STATUS_OF_R = "/reservations/r/status"


class Line:
    """The scheduler's own line to the server; everybody else's works."""

    def __init__(self, *faults):
        self.faults = faults
        self.transport = None

    def wrap(self, inner, clock):
        if self.transport is not None:
            return inner
        self.transport = FaultyTransport(inner, self.faults, clock=clock)
        return self.transport

    def add(self, *faults):
        self.transport.add(*faults)


@pytest.fixture
def line():
    return Line()


@pytest.fixture
async def cluster(tmp_path, line):
    async with Harness(tmp_path / "store", wrap=line.wrap) as harness:
        yield harness


def taken(cluster, node="n"):
    return int(cluster.world.nodes.requested[CPU, cluster.world.nodes.row_of[node]])


async def reasons(cluster, name):
    return [reason for reason, _ in await cluster.events(name)]


def using(name):
    return a_pod(name, cpu="100m", claims=[{"name": "dev", "resourceClaimName": name}])


@pytest.mark.parametrize("trouble", ["lost", "unavailable_after"])
async def test_a_pod_whose_binding_was_written_stays_though_the_answer_was_lost(
    cluster, line, trouble
):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault(trouble, **BINDING))
    await cluster.create(a_pod("p", cpu="3"))
    pod = await cluster.pod("p")
    assert (pod.spec.node_name, pod.status.phase) == ("n", "Running")
    assert await reasons(cluster, "p") == ["Scheduled"]
    assert taken(cluster) == 3000
    assert len(cluster.components.scheduler.queue) == 0


@pytest.mark.parametrize("trouble", ["conflict", "unavailable"])
async def test_a_binding_that_was_not_written_is_undone_told_and_tried_again(
    cluster, line, trouble
):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault(trouble, **BINDING))
    await cluster.create(a_pod("p", cpu="3"))
    pod = await cluster.pod("p")
    assert (pod.spec.node_name, taken(cluster)) == ("", 0)
    (condition,) = pod.status.conditions
    assert (condition.type, condition.reason) == ("PodScheduled", "SchedulerError")
    assert condition.message.startswith('running Bind plugin "DefaultBinder": injected')
    assert await reasons(cluster, "p") == ["FailedScheduling"]
    await cluster.advance(3)
    assert (await cluster.node_of("p"), taken(cluster)) == ("n", 3000)
    assert await reasons(cluster, "p") == ["FailedScheduling", "Scheduled"]


async def test_whoever_waits_for_the_room_gets_it_when_a_binding_fails(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("conflict", **BINDING))
    line.add(Fault("unavailable", method="GET", path="/pods/first", times=3))
    await cluster.create(a_pod("first", cpu="3"))
    await cluster.create(a_pod("second", cpu="3"))
    assert await cluster.node_of("second") == ""
    await cluster.advance(20)
    assert (await cluster.node_of("first"), await cluster.node_of("second")) == ("", "n")
    assert taken(cluster) == 3000


async def test_the_room_stays_held_until_the_server_says_where_the_pod_is(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("lost", **BINDING), Fault("unavailable", method="GET", path="/p", times=4))
    line.add(Fault("cut", path="/pods", watch=True))
    await cluster.create(a_pod("p", cpu="3"), a_pod("q", cpu="3"))
    assert (await cluster.node_of("p"), await cluster.node_of("q")) == ("n", "")
    await cluster.advance(30)
    assert await cluster.node_of("q") == ""
    assert "Scheduled" in await reasons(cluster, "p")


async def test_a_pod_deleted_while_its_binding_fails_is_forgotten(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("delay", **BINDING, seconds=5))
    await cluster.create(a_pod("p", cpu="3"))
    await cluster.delete(PODS, "p", "default")
    await cluster.advance(60)
    assert (taken(cluster), len(cluster.components.scheduler.queue)) == (0, 0)


async def test_a_pod_deleted_while_its_binding_is_undone_does_not_come_back(cluster, line):
    await cluster.create(
        a_node("n", cpu="4"), a_device_class("gpu"), a_slice("s", node="n"), a_claim("p")
    )
    line.add(Fault("conflict", **BINDING))
    line.add(Fault("delay", method="GET", path="/resourceclaims/p", seconds=5))
    await cluster.create(using("p"))
    await cluster.delete(PODS, "p", "default")
    # Nobody else fits any more: a pod that came back would wait here for ever.
    await cluster.create(a_pod("filler", cpu="4", node="n"))
    await cluster.advance(600)
    assert len(cluster.components.scheduler.queue) == 0


async def test_a_change_made_while_binding_failed_counts_in_the_next_try(cluster, line):
    await cluster.create(a_node("n", cpu="4", labels={"kind": "small"}))
    line.add(Fault("delay", **BINDING, seconds=1), Fault("conflict", **BINDING))
    await cluster.create(a_pod("p", cpu="1"))
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"new": "label"}}}, "default")
    await cluster.advance(5)
    (facts,) = (facts for facts, _ in cluster.world.nodes.pods())
    assert (facts.name, facts.labels) == ("p", {"new": "label"})


async def test_stopping_does_not_wait_for_a_server_that_is_gone(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("unavailable", **BINDING))
    line.add(Fault("unavailable", method="GET", path="/pods/p", times=10**6))
    await cluster.create(a_pod("p"))
    await cluster.restart_components()
    assert await cluster.node_of("p") == "n"


async def test_a_claim_stays_with_its_pod_when_only_the_answer_was_lost(cluster, line):
    await cluster.create(a_node("n"), a_device_class("gpu"), a_slice("s", node="n"), a_claim("p"))
    line.add(Fault("lost", **BINDING))
    await cluster.create(using("p"))
    claim = await cluster.client.get(RESOURCE_CLAIMS, "p", "default")
    assert [consumer.name for consumer in claim.status.reserved_for] == ["p"]
    assert await reasons(cluster, "p") == ["Scheduled"]


async def test_a_claim_is_given_up_when_its_pod_was_not_bound(cluster, line):
    await cluster.create(a_node("n"), a_device_class("gpu"), a_slice("s", node="n"), a_claim("p"))
    line.add(Fault("conflict", **BINDING))
    await cluster.create(using("p"))
    claim = await cluster.client.get(RESOURCE_CLAIMS, "p", "default")
    assert not claim.status.reserved_for
    await cluster.advance(5)
    assert await cluster.node_of("p") == "n"


async def test_a_device_written_for_one_claim_is_not_given_to_another_unheard(tmp_path):
    """The write took effect, its answer was lost, and the watch that would tell is cut."""
    cut = Fault("cut", path="/resourceclaims", watch=True, lines=3)
    line = Line(cut, Fault("unavailable", path="/resourceclaims", watch=True, times=8))
    async with Harness(tmp_path, wrap=line.wrap) as cluster:
        await cluster.create(a_node("n"), a_device_class("gpu"), a_slice("s", node="n", devices=1))
        await cluster.create(a_claim("a"), a_claim("b"))
        line.add(Fault("unavailable_after", method="PATCH", path="/resourceclaims/a/status"))
        await cluster.create(using("a"), using("b"))
        claims = (await cluster.client.list(RESOURCE_CLAIMS)).items
        assert [claim.name for claim in claims if claim.status.allocation is not None] == ["a"]
        await cluster.advance(400)
        assert (await cluster.node_of("a"), await cluster.node_of("b")) == ("n", "")


@pytest.mark.parametrize("path", ["/resourceclaims/p-", "/pods/p/status", "/binding"])
@pytest.mark.parametrize("trouble", ["conflict", "unavailable", "unavailable_after", "lost"])
async def test_devices_for_an_extended_resource_are_taken_once_whatever_fails(
    cluster, line, trouble, path
):
    gpus = a_device_class("gpu", extended_resource_name="example.com/gpu")
    await cluster.create(a_node("n"), gpus, a_slice("s", node="n", devices=1))
    line.add(Fault(trouble, path=path, times=2))
    line.add(Fault("unavailable", method="GET", path="/pods/p", times=2))
    one = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    await cluster.create(a_pod("p", **one), a_pod("q", **one))
    for _ in range(60):
        claims = (await cluster.client.list(RESOURCE_CLAIMS)).items
        assert len([claim for claim in claims if claim.status.allocation is not None]) <= 1
        await cluster.advance(0.5)
    await cluster.advance(300)
    assert sorted([await cluster.node_of("p"), await cluster.node_of("q")]) == ["", "n"]


async def test_a_reservation_whose_status_was_written_stays_though_the_answer_was_lost(
    cluster, line
):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("lost", method="PUT", path=STATUS_OF_R))
    await cluster.create(a_reservation("r", cpu="3"))
    reservation = await cluster.reservation("r")
    assert (reservation.phase, reservation.status.node_name) == ("Available", "n")
    assert (taken(cluster), await reasons(cluster, "r")) == (3000, ["Scheduled"])


async def test_a_reservation_is_bound_against_its_newest_version(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("conflict", method="PUT", path=STATUS_OF_R, times=3))
    await cluster.create(a_reservation("r", cpu="3"))
    assert (await cluster.reservation("r")).phase == "Available"
    assert await reasons(cluster, "r") == ["Scheduled"]


async def test_a_late_report_of_failure_does_not_undo_a_success(cluster, line):
    line.add(Fault("delay", method="PATCH", path=STATUS_OF_R, seconds=30))
    line.add(Fault("delay", method="PATCH", path="/pods/p/status", seconds=30))
    await cluster.create(a_node("small", cpu="1"))
    await cluster.create(a_reservation("r", cpu="3"), a_pod("p", cpu="3"))
    await cluster.create(a_node("n", cpu="8"))
    await cluster.advance(10)
    assert (await cluster.reservation("r")).phase == "Available"
    await cluster.advance(60)
    assert (await cluster.reservation("r")).phase == "Available"
    conditions = {c.type: c.status for c in (await cluster.pod("p")).status.conditions}
    assert conditions["PodScheduled"] == "True"


async def test_a_reservation_that_expires_while_it_is_bound_is_not_tried_again(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("delay", method="PUT", path=STATUS_OF_R, seconds=30))
    await cluster.create(a_reservation("r", cpu="3", ttl="10s"))
    assert taken(cluster) == 3000
    await cluster.advance(40)
    assert (await cluster.reservation("r")).phase == "Failed"
    assert (taken(cluster), len(cluster.components.scheduler.queue)) == (0, 0)


async def test_a_reservation_deleted_while_it_is_bound_gives_its_room_back(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("delay", method="PUT", path=STATUS_OF_R, seconds=30))
    await cluster.create(a_reservation("r", cpu="3"))
    await cluster.delete(RESERVATIONS, "r")
    await cluster.create(a_pod("p", cpu="3"))
    assert await cluster.node_of("p") == "n"
    await cluster.advance(40)
    assert (taken(cluster), len(cluster.components.scheduler.queue)) == (3000, 0)


class Diary:
    """A plugin that notes when it is asked for what."""

    epochs = ()

    def __init__(self, name, pages, refuses=None, call=None, breaks=False):
        self.name = name
        self._pages = pages
        self._refuses = refuses
        self._call = call
        self._breaks = breaks

    def reserve(self, _state, _placement):
        self._pages.append(f"reserve {self.name}")
        if self._breaks:
            raise ZeroDivisionError("a bug")
        return self._refuses

    def unreserve(self, _state, _placement):
        self._pages.append(f"unreserve {self.name}")

    def pre_bind(self, _state, placement):
        self._pages.append(f"pre-bind {self.name}")
        if self._breaks:
            raise ZeroDivisionError("a bug")
        yield self._call or Call("get", PODS.path("default", placement.pod.name))

    def undo_bind(self, _state, _placement):
        self._pages.append(f"undo {self.name}")
        yield Call("get", "/api/v1/nodes/n")


def diaries(pages, **odd_one):
    """Three of them; the second is the odd one."""
    return [Diary("a", pages), Diary("b", pages, **odd_one), Diary("c", pages)]


def a_placement(world, *plugins):
    facts = world.facts(typed(a_pod("p", cpu="3")))
    return Placement(facts, world.nodes.row_of["n"], "n", {plugin.name: None for plugin in plugins})


@pytest.fixture
def world():
    world = World()
    world.upsert(typed(a_node("n", cpu="4")))
    return world


def test_all_promises_are_entered_in_order(world):
    pages = []
    plugins = diaries(pages)
    assert hold(Profile("test", tuple(plugins)), world, a_placement(world, *plugins)) is None
    assert pages == ["reserve a", "reserve b", "reserve c"]
    assert world.nodes.requested[CPU, 0] == 3000


def test_a_refused_promise_withdraws_every_plugins_in_reverse(world):
    pages = []
    refusal = Reject(Code.UNSCHEDULABLE, ("not today",))
    plugins = diaries(pages, refuses=refusal)
    told = hold(Profile("test", tuple(plugins)), world, a_placement(world, *plugins))
    assert told == ("b", refusal)
    assert pages == ["reserve a", "reserve b", "unreserve c", "unreserve b", "unreserve a"]
    assert world.nodes.requested[CPU, 0] == 0


def test_a_plugin_with_nothing_to_say_is_not_asked(world):
    pages = []
    a, b, c = diaries(pages)
    hold(Profile("test", (a, b, c)), world, a_placement(world, a, c))
    assert pages == ["reserve a", "reserve c"]


def test_a_plugin_that_breaks_leaves_nothing_held(world):
    pages = []
    plugins = diaries(pages, breaks=True)
    with pytest.raises(ZeroDivisionError):
        hold(Profile("test", tuple(plugins)), world, a_placement(world, *plugins))
    assert pages[-3:] == ["unreserve c", "unreserve b", "unreserve a"]
    assert world.nodes.requested[CPU, 0] == 0


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (Code.UNSCHEDULABLE, False, "0/1 nodes are available: 1 not today."),
        (Code.ERROR, True, 'running Reserve plugin "b": not today'),
    ],
)
def test_a_refusal_to_reserve_is_told_as_upstream_tells_it(world, code, error, message):
    plugins = [Prepared("b", [], refuses=Reject(code, ("not today",))), DefaultBinder({})]
    facts = world.facts(typed(a_pod("p")))
    rng = np.random.default_rng(0)
    outcome = attempt(Profile("test", tuple(plugins)), facts, world, 0.0, rng)
    assert (outcome.error, outcome.message) == (error, message)
    assert outcome.rejectors == (frozenset() if error else {"b"})


class Prepared(Diary):
    """A diary whose plugin has something to say about every pod."""

    def prepare(self, _pod, _view):
        return "state"


async def bound(cluster, *plugins):
    """Bind a pod by hand through the API server; answers what failed, if anything did."""
    await cluster.components.scheduler.stop()
    await cluster.create(a_node("n"), a_pod("p"), settle=False)
    world = World()
    world.upsert(typed(a_node("n")))
    placement = a_placement(world, *plugins)
    placement.pod = world.facts(await cluster.pod("p"))
    driver = Driver(cluster.client, cluster.clock)
    try:
        await bind(driver, Profile("test", (*plugins, DefaultBinder({}))), placement)
    except BindFailed as failure:
        await undo(driver, placement, failure)
        return str(failure)
    return None


async def test_a_pod_is_bound_once_everything_before_is_written(cluster):
    pages = []
    assert await bound(cluster, *diaries(pages)) is None
    assert pages == ["pre-bind a", "pre-bind b", "pre-bind c"]
    assert await cluster.node_of("p") == "n"


async def test_what_was_written_before_a_failure_is_undone_in_reverse(cluster):
    pages = []
    missing = Call("patch", PODS.path("default", "nobody"), {}, "application/merge-patch+json")
    failure = await bound(cluster, *diaries(pages, call=missing))
    assert failure == 'running PreBind plugin "b": pods "nobody" not found'
    assert pages == ["pre-bind a", "pre-bind b", "undo b", "undo a"]
    assert await cluster.node_of("p") == ""


async def test_a_plugin_that_breaks_while_binding_is_undone_like_any_failure(cluster):
    pages = []
    failure = await bound(cluster, *diaries(pages, breaks=True))
    assert failure == 'running PreBind plugin "b": a bug'
    assert pages == ["pre-bind a", "pre-bind b", "undo b", "undo a"]


def test_an_owner_that_is_on_its_node_after_all_keeps_what_it_draws():
    """A write that timed out may land after the server was asked about it."""
    profile = default_profiles()["default-scheduler"]
    world = World()
    held = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "2"}}
    owners = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
    for raw in (a_node("n", cpu="4"), a_reservation("r", owners=owners, status=held)):
        world.upsert(typed(raw))
    owner = a_pod("p", cpu="2", labels={"app": "web"})
    placement = attempt(profile, world.facts(typed(owner)), world, 0.0, np.random.default_rng(0))
    world.upsert(typed(owner | {"spec": owner["spec"] | {"nodeName": "n"}},
                       annotations=placement.annotations))  # fmt: skip
    release(profile, world, placement)
    assert int(world.nodes.requested[CPU, 0]) == 2000
    [offer] = world.offers
    assert offer.left(CPU) == 0
