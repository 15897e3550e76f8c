"""Reserve and PreBind are undone in reverse order, whatever a plugin raises."""

import asyncio

import numpy as np
import pytest

from holdfast.api.scheme import PODS
from holdfast.client.client import Client
from holdfast.runtime.errors import Unavailable
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import ApiCall, Code, Placement, Plugin, Reject, Reserver
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.plugins.default_binder import DefaultBinder
from holdfast.scheduling.scheduler.api_call_runner import ApiCallRunner
from holdfast.scheduling.scheduler.binding import BindFailed, bind, undo
from holdfast.scheduling.scheduler.cycle import (
    assume_and_reserve,
    schedule_pod,
    unreserve_and_forget,
)
from holdfast.state.columns.interner import CPU
from holdfast.testing import Fault, FaultyTransport, a_node, a_pod, a_reservation, typed
from holdfast.testing.harness import Harness


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


class RecordingReserver(Reserver):
    """A plan that records the calls of its methods."""

    def __init__(self, name, calls, refuses=None, call=None, breaks=False):
        self.name = name
        self._calls = calls
        self._refuses = refuses
        self._call = call
        self._breaks = breaks

    def reserve(self, placement):
        self._calls.append(f"reserve {self.name}")
        if self._breaks:
            raise ZeroDivisionError("a bug")
        return self._refuses

    def unreserve(self, placement):
        self._calls.append(f"unreserve {self.name}")

    def pre_bind(self, placement):
        self._calls.append(f"pre-bind {self.name}")
        if self._breaks:
            raise ZeroDivisionError("a bug")
        yield self._call or ApiCall("get", PODS.path("default", placement.pod.name))

    def undo_pre_bind(self, placement):
        self._calls.append(f"undo {self.name}")
        yield ApiCall("get", "/api/v1/nodes/n")


class RecordingPlugin(Plugin):
    """A plugin whose plan records calls."""

    plan_classes = (RecordingReserver,)

    def __init__(self, name, calls, **options):
        self.name = name
        self.plan = RecordingReserver(name, calls, **options)

    def pre_filter(self, pod, view):
        return self.plan


def three_plugins(calls, **options):
    """Return three plugins, the second with these options."""
    return [
        RecordingPlugin("a", calls),
        RecordingPlugin("b", calls, **options),
        RecordingPlugin("c", calls),
    ]


def a_placement(world, *plugins):
    pod_info = world.pod_info(typed(a_pod("p", cpu="3")))
    return Placement(
        pod_info, world.nodes.row_of["n"], "n", {plugin.name: plugin.plan for plugin in plugins}
    )


@pytest.fixture
def world():
    world = World()
    world.upsert(typed(a_node("n", cpu="4")))
    return world


def test_reserve_plugins_run_in_order(world):
    calls = []
    plugins = three_plugins(calls)
    assert (
        assume_and_reserve(Profile("test", tuple(plugins)), world, a_placement(world, *plugins))
        is None
    )
    assert calls == ["reserve a", "reserve b", "reserve c"]
    assert world.nodes.requested[CPU, 0] == 3000


def test_a_rejection_unreserves_all_plugins_in_reverse(world):
    calls = []
    refusal = Reject(Code.UNSCHEDULABLE, ("not today",))
    plugins = three_plugins(calls, refuses=refusal)
    rejected = assume_and_reserve(
        Profile("test", tuple(plugins)), world, a_placement(world, *plugins)
    )
    assert rejected == ("b", refusal)
    assert calls == ["reserve a", "reserve b", "unreserve c", "unreserve b", "unreserve a"]
    assert world.nodes.requested[CPU, 0] == 0


def test_a_plugin_that_skipped_pre_filter_is_not_run(world):
    calls = []
    a, b, c = three_plugins(calls)
    assume_and_reserve(Profile("test", (a, b, c)), world, a_placement(world, a, c))
    assert calls == ["reserve a", "reserve c"]


def test_an_error_of_a_plugin_leaves_nothing_reserved(world):
    calls = []
    plugins = three_plugins(calls, breaks=True)
    with pytest.raises(ZeroDivisionError):
        assume_and_reserve(Profile("test", tuple(plugins)), world, a_placement(world, *plugins))
    assert calls[-3:] == ["unreserve c", "unreserve b", "unreserve a"]
    assert world.nodes.requested[CPU, 0] == 0


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (Code.UNSCHEDULABLE, False, "0/1 nodes are available: 1 not today."),
        (Code.ERROR, True, 'running Reserve plugin "b": not today'),
    ],
)
def test_a_rejection_by_reserve_has_upstreams_message(world, code, error, message):
    plugins = [RecordingPlugin("b", [], refuses=Reject(code, ("not today",))), DefaultBinder({})]
    pod_info = world.pod_info(typed(a_pod("p")))
    rng = np.random.default_rng(0)
    profile = Profile("test", tuple(plugins))
    outcome = schedule_pod(profile, profile.view(pod_info, world, 0.0), rng)
    assert (outcome.error, outcome.message) == (error, message)
    assert outcome.unschedulable_plugins == (frozenset() if error else {"b"})


async def bound(cluster, *plugins):
    """Bind a pod through the API server; return the failure, or None."""
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


async def test_a_read_is_retried_until_the_server_responds_and_a_write_is_not(cluster):
    await cluster.create(a_node("n"))
    line = FaultyTransport(cluster.client.transport, [Fault("unavailable", times=3)])
    answers = []

    def steps():
        answers.append((yield ApiCall("get", "/api/v1/nodes/n"))["metadata"]["name"])
        line.add(Fault("unavailable"))
        yield ApiCall("patch", "/api/v1/nodes/n", {}, "application/merge-patch+json")

    pod = cluster.world.pod_info(typed(a_pod("p")))
    runner = ApiCallRunner(Client(line, "test"), cluster.clock)
    driving = asyncio.create_task(runner.run(steps(), pod))
    await cluster.clock.advance_until(driving.done)
    assert answers == ["n"]
    with pytest.raises(Unavailable):
        await driving


async def test_a_pod_is_bound_after_all_pre_bind_writes(cluster):
    calls = []
    assert await bound(cluster, *three_plugins(calls)) is None
    assert calls == ["pre-bind a", "pre-bind b", "pre-bind c"]
    assert await cluster.node_of("p") == "n"


async def test_pre_bind_writes_are_undone_in_reverse_after_a_failure(cluster):
    calls = []
    missing = ApiCall("patch", PODS.path("default", "missing"), {}, "application/merge-patch+json")
    failure = await bound(cluster, *three_plugins(calls, call=missing))
    assert failure == 'running PreBind plugin "b": pods "missing" not found'
    assert calls == ["pre-bind a", "pre-bind b", "undo b", "undo a"]
    assert await cluster.node_of("p") == ""


async def test_an_error_of_a_plugin_at_binding_is_undone_like_any_failure(cluster):
    calls = []
    failure = await bound(cluster, *three_plugins(calls, breaks=True))
    assert failure == 'running PreBind plugin "b": a bug'
    assert calls == ["pre-bind a", "pre-bind b", "undo b", "undo a"]


def test_an_owner_that_was_bound_after_all_keeps_its_allocation():
    """A write that timed out may be stored after the server was read."""
    profile = default_profiles()["default-scheduler"]
    world = World()
    held = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "2"}}
    owners = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
    for raw in (a_node("n", cpu="4"), a_reservation("r", owners=owners, status=held)):
        world.upsert(typed(raw))
    owner = a_pod("p", cpu="2", labels={"app": "web"})
    placement = schedule_pod(
        profile, profile.view(world.pod_info(typed(owner)), world, 0.0), np.random.default_rng(0)
    )
    world.upsert(typed(owner | {"spec": owner["spec"] | {"nodeName": "n"}},
                       annotations=placement.annotations))  # fmt: skip
    unreserve_and_forget(profile, world, placement)
    assert int(world.nodes.requested[CPU, 0]) == 2000
    [info] = world.reservations
    assert info.remaining(CPU) == 0
