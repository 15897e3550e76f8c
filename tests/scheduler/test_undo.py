"""Everything a decision enters or writes can be taken back, in reverse, whatever a plugin does."""

import asyncio

import numpy as np
import pytest

from holdfast.api.scheme import PODS
from holdfast.client.client import Client
from holdfast.columns.interner import CPU
from holdfast.engine.profile import Profile
from holdfast.errors import Unavailable
from holdfast.framework.plugin import ApiCall, Code, Placement, Reject, Skip, Traits
from holdfast.framework.world import World
from holdfast.plugins import default_profiles
from holdfast.plugins.default_binder import DefaultBinder
from holdfast.scheduler.binding import ApiCallRunner, BindFailed, bind, undo
from holdfast.scheduler.cycle import assume_and_reserve, schedule_pod, unreserve_and_forget
from holdfast.testing import Fault, FaultyTransport, a_node, a_pod, a_reservation, typed
from holdfast.testing.harness import Harness


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


class Diary:
    """A plugin that notes when it is asked for what."""

    traits = Traits()

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
        yield self._call or ApiCall("get", PODS.path("default", placement.pod.name))

    def undo_pre_bind(self, _state, _placement):
        self._pages.append(f"undo {self.name}")
        yield ApiCall("get", "/api/v1/nodes/n")


def diaries(pages, **odd_one):
    """Three of them; the second is the odd one."""
    return [Diary("a", pages), Diary("b", pages, **odd_one), Diary("c", pages)]


def a_placement(world, *plugins):
    pod_info = world.pod_info(typed(a_pod("p", cpu="3")))
    return Placement(
        pod_info, world.nodes.row_of["n"], "n", {plugin.name: None for plugin in plugins}
    )


@pytest.fixture
def world():
    world = World()
    world.upsert(typed(a_node("n", cpu="4")))
    return world


def test_all_promises_are_entered_in_order(world):
    pages = []
    plugins = diaries(pages)
    assert (
        assume_and_reserve(Profile("test", tuple(plugins)), world, a_placement(world, *plugins))
        is None
    )
    assert pages == ["reserve a", "reserve b", "reserve c"]
    assert world.nodes.requested[CPU, 0] == 3000


def test_a_refused_promise_withdraws_every_plugins_in_reverse(world):
    pages = []
    refusal = Reject(Code.UNSCHEDULABLE, ("not today",))
    plugins = diaries(pages, refuses=refusal)
    told = assume_and_reserve(Profile("test", tuple(plugins)), world, a_placement(world, *plugins))
    assert told == ("b", refusal)
    assert pages == ["reserve a", "reserve b", "unreserve c", "unreserve b", "unreserve a"]
    assert world.nodes.requested[CPU, 0] == 0


def test_a_plugin_with_nothing_to_say_is_not_asked(world):
    class Prepares(Diary):
        def pre_filter(self, _pod, _view):
            return Skip()

    pages = []
    plugins = Prepares("a", pages), Prepares("b", pages), Diary("never prepares", pages)
    assume_and_reserve(Profile("test", plugins), world, a_placement(world, plugins[0]))
    assert pages == ["reserve a", "reserve never prepares"]


def test_a_plugin_that_breaks_leaves_nothing_held(world):
    pages = []
    plugins = diaries(pages, breaks=True)
    with pytest.raises(ZeroDivisionError):
        assume_and_reserve(Profile("test", tuple(plugins)), world, a_placement(world, *plugins))
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
    pod_info = world.pod_info(typed(a_pod("p")))
    rng = np.random.default_rng(0)
    outcome = schedule_pod(Profile("test", tuple(plugins)), pod_info, world, 0.0, rng)
    assert (outcome.error, outcome.message) == (error, message)
    assert outcome.unschedulable_plugins == (frozenset() if error else {"b"})


class Prepared(Diary):
    """A diary whose plugin has something to say about every pod."""

    def pre_filter(self, _pod, _view):
        return "state"


async def bound(cluster, *plugins):
    """Bind a pod by hand through the API server; answers what failed, if anything did."""
    await cluster.components.scheduler.stop()
    await cluster.create(a_node("n"), a_pod("p"), settle=False)
    world = World()
    world.upsert(typed(a_node("n")))
    placement = a_placement(world, *plugins)
    placement.pod = world.pod_info(await cluster.pod("p"))
    call_runner = ApiCallRunner(cluster.client, cluster.clock)
    try:
        await bind(call_runner, Profile("test", (*plugins, DefaultBinder({}))), placement)
    except BindFailed as failure:
        await undo(call_runner, placement, failure)
        return str(failure)
    return None


async def test_a_read_is_repeated_until_the_server_answers_and_a_write_is_not(cluster):
    await cluster.create(a_node("n"))
    line = FaultyTransport(cluster.client.transport, [Fault("unavailable", times=3)])
    answers = []

    def steps():
        answers.append((yield ApiCall("get", "/api/v1/nodes/n"))["metadata"]["name"])
        line.add(Fault("unavailable"))
        yield ApiCall("patch", "/api/v1/nodes/n", {}, "application/merge-patch+json")

    driving = asyncio.create_task(ApiCallRunner(Client(line, "test"), cluster.clock).run(steps()))
    await cluster.clock.advance_until(driving.done)
    assert answers == ["n"]
    with pytest.raises(Unavailable):
        await driving


async def test_a_pod_is_bound_once_everything_before_is_written(cluster):
    pages = []
    assert await bound(cluster, *diaries(pages)) is None
    assert pages == ["pre-bind a", "pre-bind b", "pre-bind c"]
    assert await cluster.node_of("p") == "n"


async def test_what_was_written_before_a_failure_is_undone_in_reverse(cluster):
    pages = []
    missing = ApiCall("patch", PODS.path("default", "nobody"), {}, "application/merge-patch+json")
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
    placement = schedule_pod(
        profile, world.pod_info(typed(owner)), world, 0.0, np.random.default_rng(0)
    )
    world.upsert(typed(owner | {"spec": owner["spec"] | {"nodeName": "n"}},
                       annotations=placement.annotations))  # fmt: skip
    unreserve_and_forget(profile, world, placement)
    assert int(world.nodes.requested[CPU, 0]) == 2000
    [offer] = world.offers
    assert offer.left(CPU) == 0
