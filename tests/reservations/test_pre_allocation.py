"""Reservations made of room that running pods still have."""

from contextlib import asynccontextmanager

import pytest
import yaml

from holdfast.api.scheme import NODES, PODS
from holdfast.configuration.reading import Configuration, read
from holdfast.engine.profile import build_profile
from holdfast.plugins import REGISTRY
from holdfast.plugins.reservation.reserve_pods import TRIES
from holdfast.testing.faults import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.rooms import (
    PREFIX,
    drawn_from,
    filler,
    given,
    held,
    node,
    owner,
    requested,
    status,
    stranger,
    waits,
)

MINE = {"app": "my-app"}
REQUIRED = {f"{PREFIX}/pre-allocation-required": "true"}
OFFERED = "pod.koordinator.sh/is-pre-allocatable"
RANK = "pod.koordinator.sh/pre-allocatable-priority"
CLUSTER = {"mode": "Cluster"}
SEVERAL = {"mode": "Cluster", "enableMultiple": True}


def heir(name="r", **more):
    return held(name, owner_labels=MINE, pre_allocation=True, **more)


def offered(name, cpu, rank, **more):
    return filler(cpu, name, labels={OFFERED: "true"}, annotations={RANK: rank}, **more)


@asynccontextmanager
async def configured(tmp_path, **config):
    args = {"Reservation": {"preAllocationConfig": config}}
    profile = build_profile("default-scheduler", REGISTRY, args=args)
    configuration = Configuration({"default-scheduler": profile})
    async with Harness(tmp_path / "store", configuration=configuration) as cluster:
        yield cluster


def said(reservation):
    return {(c.type, c.status, c.reason) for c in reservation.status.conditions}


async def test_R073_it_inherits_from_a_running_pod(cluster):
    await given(cluster, node(), filler("12"), filler("4", "p", labels=MINE))
    await given(cluster, heir(cpu="4"))
    assert await drawn_from(cluster, "p") == "r"
    assert await status(cluster) == ("Waiting", {"cpu": "4"}, ["p"])
    assert said(await cluster.reservation("r")) == {
        ("Scheduled", "True", "Scheduled"), ("Ready", "False", "Waiting"),
    }  # fmt: skip
    assert requested(cluster) == 16000, "the node holds the larger of both, not the sum"
    await cluster.delete(PODS, "p", "default")
    assert await status(cluster) == ("Available", {}, [])
    assert said(await cluster.reservation("r")) >= {("Ready", "True", "Available")}
    await given(cluster, stranger(cpu="4"))
    assert await waits(cluster, "stranger")
    await given(cluster, stranger("mine", cpu="4", labels=MINE))
    assert await drawn_from(cluster, "mine") == "r"
    assert (await status(cluster))[0] == "Succeeded"


async def test_a_waiting_reservation_takes_no_owner(cluster):
    await given(cluster, node(), filler("12"), filler("4", "p", labels=MINE), heir(cpu="4"))
    await given(cluster, stranger("mine", cpu="4", labels=MINE))
    assert await waits(cluster, "mine")
    assert (await status(cluster))[0] == "Waiting"


async def test_who_waits_for_room_takes_none_from_others_that_hold_theirs(cluster):
    await given(cluster, node(cpu="8"), held("theirs", cpu="2", allocate_once=False), filler("5"))
    await given(cluster, heir(cpu="3"))
    assert (await status(cluster))[0] == "Waiting"
    await given(cluster, owner(cpu="2"))
    assert await drawn_from(cluster, "owner") == "theirs"
    await given(cluster, owner("beyond", cpu="1"))
    assert await waits(cluster, "beyond")
    await cluster.delete(PODS, "used", "default")
    assert (await status(cluster))[0] == "Available"


async def test_R074_cluster_mode_must_be_switched_on(cluster):
    await given(cluster, node(), heir(cpu="4", pre_allocation_policy=CLUSTER))
    reservation = await cluster.reservation("r")
    assert reservation.phase == "Pending"
    (condition,) = reservation.status.conditions
    words = "reservation requires cluster mode pre-allocation which is disabled"
    assert words in condition.message
    assert "Cluster needs preAllocationConfig.enableClusterMode" in condition.message


async def test_R075_in_cluster_mode_the_higher_priority_goes_first(tmp_path):
    async with configured(tmp_path, enableClusterMode=True) as cluster:
        await given(cluster, node(), filler("12"), offered("low", "2", "90"))
        await given(cluster, offered("high", "2", "100"))
        await given(cluster, heir(cpu="2", pre_allocation_policy=CLUSTER))
        assert await drawn_from(cluster, "high") == "r"
        assert await drawn_from(cluster, "low") is None


async def test_R076_several_pods_leave_their_room_together(tmp_path):
    async with configured(tmp_path, enableClusterMode=True) as cluster:
        small = {"memory": "2Gi"}
        await given(cluster, node(), filler("14", memory="28Gi"))
        await given(cluster, offered("a", "1", "100", **small), offered("b", "1", "90", **small))
        room = {"cpu": "2", "memory": "4Gi"}
        await given(cluster, heir("single", pre_allocation_policy=CLUSTER, **room))
        assert (await cluster.reservation("single")).phase == "Pending"
        (condition,) = (await cluster.reservation("single")).status.conditions
        assert "Insufficient cpu by node" in condition.message
        await given(cluster, heir("both", pre_allocation_policy=SEVERAL, **room))
        assert [await drawn_from(cluster, name) for name in "ab"] == ["both", "both"]
        assert (await status(cluster, "both"))[0] == "Waiting"


async def test_R077_a_pod_larger_than_the_reservation_is_passed_over(tmp_path):
    async with configured(tmp_path, enableClusterMode=True) as cluster:
        await given(cluster, node(), filler("11"), offered("large", "3", "100"))
        await given(cluster, offered("a", "1", "90"), offered("b", "1", "80"))
        await given(cluster, heir(cpu="2", pre_allocation_policy=SEVERAL))
        taken = [await drawn_from(cluster, name) for name in ("large", "a", "b")]
        assert taken == [None, "r", "r"]


@pytest.mark.parametrize(("prefers", "phase", "taken"), [(True, "Available", None),
                                                          (False, "Waiting", "r")])  # fmt: skip
async def test_R078_where_there_is_room_pods_may_be_left_alone(tmp_path, prefers, phase, taken):
    async with configured(tmp_path, preferNoPreAllocatedPods=prefers) as cluster:
        await given(cluster, node(), filler("2", "p", labels=MINE), heir(cpu="4"))
        assert await drawn_from(cluster, "p") == taken
        assert (await status(cluster))[0] == phase


async def test_R079_required_and_nobody_to_inherit_from(cluster):
    await given(cluster, node(), heir(cpu="4", labels=REQUIRED))
    reservation = await cluster.reservation("r")
    assert reservation.phase == "Pending"
    (condition,) = reservation.status.conditions
    assert "node(s) no pod match reservation with pre allocation required" in condition.message
    await given(cluster, filler("2", "p", labels=MINE))
    assert (await status(cluster))[0] == "Waiting"
    assert await drawn_from(cluster, "p") == "r"


async def test_a_refused_one_is_tried_again_only_for_pods_that_may_leave_it_room(cluster):
    await given(cluster, node(), heir(cpu="4", labels=REQUIRED))
    vain = {"result": "unschedulable", "profile": "default-scheduler"}
    tried = cluster.metric("schedule_attempts_total", **vain)
    await given(cluster, *[filler("1", f"other{i}", labels={"app": f"a{i}"}) for i in range(5)])
    await cluster.advance(20)
    assert cluster.metric("schedule_attempts_total", **vain) == tried
    await cluster.client.patch(PODS, "other3", {"metadata": {"labels": MINE}}, "default")
    await cluster.advance(20)
    assert await drawn_from(cluster, "other3") == "r"


async def test_it_inherits_by_whatever_its_owners_are_told_by(cluster):
    """A name, a controller, a namespace: labels alone tell only some sorts of pods apart."""
    await given(cluster, node(), filler("12"), filler("2", "a", labels=MINE))
    made = {"apiVersion": "v1", "kind": "Set", "name": "s", "uid": "u", "controller": True}
    await given(cluster, filler("2", "b", metadata={"ownerReferences": [made]}))
    for name, owners in (("r1", {"controller": {"name": "s"}}), ("r2", {"object": {"name": "a"}})):
        more = {"owners": [owners], "pre_allocation": True, "labels": REQUIRED}
        await given(cluster, held(name, cpu="2", **more))
    assert [await drawn_from(cluster, name) for name in ("a", "b")] == ["r2", "r1"]
    elsewhere = [{"object": {"namespace": "elsewhere"}, "labelSelector": {"matchLabels": MINE}}]
    more = {"owners": elsewhere, "pre_allocation": True, "labels": REQUIRED}
    await given(cluster, held("r3", cpu="2", **more))
    assert (await status(cluster, "r3"))[0] == "Pending"


async def test_required_but_too_large_says_what_is_missing(cluster):
    await given(cluster, node(), filler("10"), filler("6", "p", labels=MINE))
    await given(cluster, heir(cpu="4", labels=REQUIRED))
    (condition,) = (await cluster.reservation("r")).status.conditions
    assert "Reservation(s) Insufficient cpu" in condition.message


async def test_R087_without_anybody_to_inherit_from_it_waits_for_room(cluster):
    await given(cluster, node(), *[filler("4", f"f{i}") for i in range(4)])
    await given(cluster, heir(cpu="8"))
    assert said(await cluster.reservation("r")) == {
        ("Scheduled", "True", "Scheduled"), ("Ready", "False", "Waiting"),
    }  # fmt: skip
    await given(cluster, stranger(cpu="4"))
    await cluster.delete(PODS, "f0", "default")
    assert await waits(cluster, "stranger"), "what comes free is the reservation's"
    assert (await status(cluster))[0] == "Waiting"
    await cluster.delete(PODS, "f1", "default")
    assert (await status(cluster))[0] == "Available"
    assert await waits(cluster, "stranger")
    await cluster.delete(PODS, "f2", "default")
    await cluster.advance(15)
    assert await cluster.node_of("stranger") == "n1"


async def test_one_that_waits_takes_nothing_from_owners_one_after_the_other(cluster):
    await given(cluster, node(), held("theirs", cpu="4", allocate_once=False), filler("12"))
    await given(cluster, heir(cpu="8"))
    assert (await status(cluster))[0] == "Waiting"
    for name in ("a", "b"):
        await given(cluster, owner(name, cpu="2"))
        assert await drawn_from(cluster, name) == "theirs"
    await given(cluster, owner("c", cpu="2"))
    assert await waits(cluster, "c")


async def test_it_waits_where_the_least_is_missing(cluster):
    await given(cluster, node("n1"), node("n2"))
    await given(cluster, filler("16", "a", "n1"), filler("10", "b", "n2"), heir(cpu="8"))
    assert (await cluster.reservation("r")).status.node_name == "n2"


async def test_it_never_waits_where_it_could_never_fit(cluster):
    await given(cluster, node("n1", cpu="4"), heir(cpu="8"))
    reservation = await cluster.reservation("r")
    assert reservation.phase == "Pending"
    assert "Insufficient cpu by node" in reservation.status.conditions[0].message


async def test_R088_a_waiting_one_ends_with_its_node(cluster):
    await given(cluster, node(), filler("16"), heir(cpu="8"))
    await cluster.delete(NODES, "n1")
    assert said(await cluster.reservation("r")) >= {("Ready", "False", "Expired")}
    assert (await status(cluster))[0] == "Failed"


async def test_a_restart_knows_who_leaves_room_to_whom(cluster):
    await given(cluster, node(), filler("12"), filler("4", "p", labels=MINE), heir(cpu="4"))
    await cluster.restart()
    assert requested(cluster) == 16000
    await given(cluster, heir("second", cpu="4"))
    assert await drawn_from(cluster, "p") == "r", "nobody inherits the same room twice"


async def test_pods_are_told_when_it_comes_to_nothing(tmp_path):
    fault = Fault("conflict", method="PUT", path="/reservations/r/status", times=TRIES)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await given(cluster, node(), filler("16", "p", labels=MINE), heir(cpu="4"))
        assert (await status(cluster))[0] == "Pending"
        assert await drawn_from(cluster, "p") is None
        await cluster.advance(15)
        assert (await status(cluster))[0] == "Waiting"


async def test_a_lost_answer_breaks_no_promise(tmp_path):
    fault = Fault("lost", method="PUT", path="/reservations/r/status")

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await given(cluster, node(), filler("12"), filler("4", "p", labels=MINE), heir(cpu="4"))
        await cluster.advance(15)
        assert await status(cluster) == ("Waiting", {"cpu": "4"}, ["p"])
        assert await drawn_from(cluster, "p") == "r"


async def test_room_that_somebody_is_on_the_way_to_is_not_free(tmp_path):
    """Until the pod is bound nobody but the scheduler knows of it."""
    fault = Fault("delay", method="POST", path="/pods/late/binding", seconds=20)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await given(cluster, node(), stranger("late", cpu="16"), heir(cpu="8"))
        assert (await status(cluster))[0] == "Pending"
        await cluster.advance(40)
        assert await cluster.node_of("late") == "n1"
        assert (await status(cluster))[0] == "Waiting"


GUIDES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: koord-scheduler
  plugins:
    reservation:
      enabled:
      - name: Reservation
  pluginConfig:
  - name: Reservation
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: ReservationArgs
      preAllocationConfig:
        # Enable cluster-wide pre-allocation mode
        enableClusterMode: true
        # Custom label key for identifying pre-allocatable pods (optional)
        clusterLabelKey: pod.koordinator.sh/is-pre-allocatable
        # Custom annotation key for prioritizing pods (optional)
        clusterPriorityAnnotationKey: pod.koordinator.sh/pre-allocatable-priority
        # Prefer placing reservations without using pre-allocatable pods when possible
        preferNoPreAllocatedPods: true
"""


async def test_the_guides_own_configuration_is_in_effect(tmp_path):
    configuration = read(yaml.safe_load(GUIDES))
    (warning,) = configuration.warnings
    assert "plugins.reservation" in warning
    async with Harness(tmp_path / "store", configuration=configuration) as cluster:
        await given(
            cluster, node(), filler("10"), offered("a", "2", "90"), offered("b", "2", "100")
        )
        ours = {"template": {"scheduler_name": "koord-scheduler"}, "pre_allocation_policy": CLUSTER}
        await given(cluster, heir("first", cpu="2", **ours))
        assert (await status(cluster, "first"))[0] == "Available"
        await given(cluster, heir("second", cpu="2", **ours))
        assert (await status(cluster, "second")) == ("Waiting", {"cpu": "2"}, ["b"])
