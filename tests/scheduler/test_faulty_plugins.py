"""Plugins with bugs: the pod that meets one gets the error, and all others are scheduled."""

import pytest

from holdfast.api.scheme import PODS
from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.per_node import PerNodePlugin, columnar
from holdfast.scheduling.framework.plugin import (
    Code,
    NodeFilter,
    Plugin,
    Reject,
    Reserver,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, a_pod, typed
from holdfast.testing.harness import Harness

STOCK = default_profiles()["default-scheduler"]


class ReadsTeam(PerNodePlugin):
    """Fails for pods without a team."""

    name = "ReadsTeam"

    def reads(self, pod):
        return pod.metadata.labels["team"]

    def fits(self, pod, node):
        return None


class Closed(NodeFilter):
    reason = "closed"


class ForTeams(Plugin):
    """Looks at pods of a team; each subclass fails for one without."""

    name = "ForTeams"
    plan_classes = (Closed,)

    def pre_filter(self, pod, view):
        return super().pre_filter(pod, view) if "team" in pod.labels else self.fail()


class ReturnsNothing(ForTeams):
    def fail(self):
        return None


class ReturnsAnotherPlan(ForTeams):
    def fail(self):
        return Reserver()


class Bind(Plugin, Reserver):
    """Each subclass fails for pods without a team, after they were placed."""

    name = "Bind"

    def pre_filter(self, pod, view):
        return self

    def pre_bind(self, placement):
        yield from ()

    def undo_pre_bind(self, placement):
        yield from ()


class FailsPreFlight(Bind):
    def pre_bind_pre_flight(self, placement):
        return bool(placement.pod.labels["team"])


class FailsToSayWhetherItEnds(Bind):
    def may_end_pending(self, placement):
        return not placement.pod.labels["team"]

    def pre_bind(self, placement):
        yield from ()
        return Reject(Code.PENDING, ("later",)) if "team" not in placement.pod.labels else None


class UnhashableKey(Plugin):
    name = "UnhashableKey"
    traits = Traits(scope=Scope.NODE)
    plan_classes = (Closed,)

    def reads(self, pod, view):
        return None if "team" in pod.labels else []

    def pre_filter(self, pod, view):
        return Skip()


class NeedsPreparation(Plugin):
    name = "NeedsPreparation"

    def prepare_post_filter(self, filters, view):
        return iter(())

    def post_filter(self, rejection, view):
        return super().post_filter(rejection, view)

    def post_filter_needs_preparation(self, pod, view):
        return pod.labels["team"] == "a"


def harness(tmp_path, *plugins):
    profile = Profile(STOCK.name, (*STOCK.plugins, *plugins), STOCK.weights)
    return Harness(tmp_path / "store", profiles={STOCK.name: profile})


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (columnar(ReadsTeam()), "'team'"),
        (ReturnsNothing(), "ForTeams.pre_filter returned an object of NoneType: return Skip()"),
        (ReturnsAnotherPlan(), "ForTeams.pre_filter returned an object of Reserver: return Skip()"),
        (UnhashableKey(), "unhashable type: 'list'"),
        (NeedsPreparation(), ""),
        (FailsPreFlight(), "running PreBind plugins: 'team'"),
        (FailsToSayWhetherItEnds(), "running PreBind plugins: 'team'"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_only_the_pod_that_meets_a_bug_waits(tmp_path, plugin, message):
    async with harness(tmp_path, plugin) as cluster:
        await cluster.create(a_node("n"), a_pod("alone"), a_pod("of-a-team", labels={"team": "a"}))
        assert await cluster.node_of("of-a-team") == "n"
        stored = await cluster.pod("alone")
        conditions = [c.message for c in stored.status.conditions if c.type == "PodScheduled"]
        assert message in conditions[0]
        assert cluster.components.scheduler.healthy


class Licence(Plugin, Reserver):
    """Only reserves; it is asked for every pod."""

    name = "Licence"

    def __init__(self):
        super().__init__()
        self.holders = set()

    def pre_filter(self, pod, view):
        return self

    def reserve(self, placement):
        self.holders.add(placement.pod.name)

    def unreserve(self, placement):
        self.holders.discard(placement.pod.name)


async def test_a_plugin_that_only_reserves_is_asked_for_every_pod(tmp_path):
    licence = Licence()
    async with harness(tmp_path, licence) as cluster:
        await cluster.create(a_node("n", cpu="2"), a_pod("a", cpu="1"), a_pod("b", cpu="1"))
        await cluster.create(a_pod("too-many", cpu="1"))
        assert licence.holders == {"a", "b"}


class Gate(Plugin):
    """Keeps pods out of the queue by something outside of their spec."""

    name = "Gate"
    traits = Traits(reads_outside_spec=True)

    def pre_enqueue(self, pod, view):
        closed = pod.pod.metadata.annotations.get("closed") == "yes"
        return Reject(Code.UNRESOLVABLE, ("closed",)) if closed else None


async def test_a_pod_that_a_plugin_without_plan_gates_is_not_lost(tmp_path):
    async with harness(tmp_path, Gate()) as cluster:
        await cluster.create(a_node("n"), a_pod("p", annotations={"closed": "yes"}))
        assert await cluster.node_of("p") == ""
        opened = {"metadata": {"annotations": {"closed": "no"}}}
        await cluster.client.patch(PODS, "p", opened, "default")
        await cluster.settle()
        assert await cluster.node_of("p") == "n"


def test_a_plan_that_only_reserves_leaves_the_cached_rows_of_the_class():
    profile = Profile(STOCK.name, (*STOCK.plugins, Licence()), STOCK.weights)
    world = World()
    world.upsert(typed(a_node("n")))
    found = feasible(profile, profile.view(world.pod_info(typed(a_pod("p"))), world, 0.0))
    assert found.is_of_class
    assert found.mask is None
    assert "Licence" in found.plans
