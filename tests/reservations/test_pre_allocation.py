"""Reservations that pre-allocate running pods."""

import pytest
import yaml

from holdfast.api.scheme import NODES, PODS
from holdfast.scheduling.configuration.reading import read
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.reservation.reserve_pods import TRIES
from holdfast.state.reservations.pre_allocation import PreAllocationRules, choose_pods
from holdfast.testing import typed
from holdfast.testing.faults import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.objects import (
    PREFIX,
    allocated_from,
    create_each,
    held,
    is_pending,
    node,
    non_owner,
    owner,
    requested,
    running,
    status,
)
from reservations.pre_allocation import CLUSTER, configured

MINE = {"app": "my-app"}
REQUIRED = {f"{PREFIX}/pre-allocation-required": "true"}
OFFERED = "pod.koordinator.sh/is-pre-allocatable"
RANK = "pod.koordinator.sh/pre-allocatable-priority"
SEVERAL = {"mode": "Cluster", "enableMultiple": True}


def pre_allocating(name="r", **more):
    return held(name, owner_labels=MINE, pre_allocation=True, **more)


def pre_allocatable(name, cpu, rank, **more):
    return running(cpu, name, labels={OFFERED: "true"}, annotations={RANK: rank}, **more)


def conditions_of(reservation):
    return {(c.type, c.status, c.reason) for c in reservation.status.conditions}


async def test_R073_a_running_pod_is_pre_allocated(cluster):
    await create_each(cluster, node(), running("12"), running("4", "p", labels=MINE))
    await create_each(cluster, pre_allocating(cpu="4"))
    assert await allocated_from(cluster, "p") == "r"
    assert await status(cluster) == ("Waiting", {"cpu": "4"}, ["p"])
    assert conditions_of(await cluster.reservation("r")) == {
        ("Scheduled", "True", "Scheduled"), ("Ready", "False", "Waiting"),
    }  # fmt: skip
    assert requested(cluster) == 16000, "the node holds the larger of both, not the sum"
    await cluster.delete(PODS, "p", "default")
    assert await status(cluster) == ("Available", {}, [])
    assert conditions_of(await cluster.reservation("r")) >= {("Ready", "True", "Available")}
    await create_each(cluster, non_owner(cpu="4"))
    assert await is_pending(cluster, "stranger")
    await create_each(cluster, non_owner("mine", cpu="4", labels=MINE))
    assert await allocated_from(cluster, "mine") == "r"
    assert (await status(cluster))[0] == "Succeeded"


async def test_a_waiting_reservation_accepts_no_owner(cluster):
    await create_each(
        cluster, node(), running("12"), running("4", "p", labels=MINE), pre_allocating(cpu="4")
    )
    await create_each(cluster, non_owner("mine", cpu="4", labels=MINE))
    assert await is_pending(cluster, "mine")
    assert (await status(cluster))[0] == "Waiting"


async def test_a_waiting_reservation_does_not_reduce_other_reservations(cluster):
    await create_each(
        cluster, node(cpu="8"), held("theirs", cpu="2", allocate_once=False), running("5")
    )
    await create_each(cluster, pre_allocating(cpu="3"))
    assert (await status(cluster))[0] == "Waiting"
    await create_each(cluster, owner(cpu="2"))
    assert await allocated_from(cluster, "owner") == "theirs"
    await create_each(cluster, owner("beyond", cpu="1"))
    assert await is_pending(cluster, "beyond")
    await cluster.delete(PODS, "used", "default")
    assert (await status(cluster))[0] == "Available"


async def test_R074_cluster_mode_must_be_enabled(cluster):
    await create_each(cluster, node(), pre_allocating(cpu="4", pre_allocation_policy=CLUSTER))
    reservation = await cluster.reservation("r")
    assert reservation.phase == "Pending"
    (condition,) = reservation.status.conditions
    words = "reservation requires cluster mode pre-allocation which is disabled"
    assert words in condition.message
    assert "Cluster needs preAllocationConfig.enableClusterMode" in condition.message


async def test_R075_in_cluster_mode_the_higher_priority_goes_first(tmp_path):
    async with configured(tmp_path, enableClusterMode=True) as cluster:
        await create_each(cluster, node(), running("12"), pre_allocatable("low", "2", "90"))
        await create_each(cluster, pre_allocatable("high", "2", "100"))
        await create_each(cluster, pre_allocating(cpu="2", pre_allocation_policy=CLUSTER))
        assert await allocated_from(cluster, "high") == "r"
        assert await allocated_from(cluster, "low") is None


@pytest.mark.parametrize("edited", [False, True])
async def test_a_pre_allocated_pod_stays_one_after_a_restart(tmp_path, edited):
    """Whatever label the configuration names, and although the pod has lost it."""
    label = "example.com/free"
    async with configured(tmp_path, enableClusterMode=True, clusterLabelKey=label) as cluster:
        used = running("6", "p", labels={label: "true"})
        await create_each(cluster, node(), running("10"), used)
        wanted = pre_allocating(cpu="6", pre_allocation_policy=CLUSTER)
        await create_each(cluster, wanted)
        if edited:
            body = {"metadata": {"labels": {label: None}}}
            await cluster.client.patch(PODS, "p", body, "default")
        await cluster.restart_components()
        assert await status(cluster) == ("Waiting", {"cpu": "6"}, ["p"])
        assert requested(cluster) == 16_000, "the pod and the reservation count once"


async def test_R076_several_pods_are_pre_allocated_together(tmp_path):
    async with configured(tmp_path, enableClusterMode=True) as cluster:
        small = {"memory": "2Gi"}
        await create_each(cluster, node(), running("14", memory="28Gi"))
        await create_each(
            cluster,
            pre_allocatable("a", "1", "100", **small),
            pre_allocatable("b", "1", "90", **small),
        )
        room = {"cpu": "2", "memory": "4Gi"}
        await create_each(cluster, pre_allocating("both", pre_allocation_policy=SEVERAL, **room))
        assert [await allocated_from(cluster, name) for name in "ab"] == ["both", "both"]
        assert await waiting_for(cluster, "both") == (
            "waiting for the resources of default/a, default/b"
        )
        await cluster.delete(PODS, "a", "default")
        assert await status(cluster, "both") == ("Waiting", {"cpu": "1", "memory": "2Gi"}, ["b"])
        assert await waiting_for(cluster, "both") == "waiting for the resources of default/b"
        await cluster.delete(PODS, "b", "default")
        assert (await status(cluster, "both"))[0] == "Available"


async def waiting_for(cluster, name="r"):
    ready = (await cluster.reservation(name)).condition("Ready")
    assert (ready.status, ready.reason) == ("False", "Waiting")
    return ready.message


async def test_R076_without_enableMultiple_it_waits_for_the_best_and_for_more(cluster):
    await create_each(cluster, node(), running("11"))
    for name, cpu in (("small", "2"), ("best", "3")):
        await create_each(cluster, running(cpu, name, labels=MINE))
    await create_each(cluster, pre_allocating(cpu="4"))
    assert [await allocated_from(cluster, name) for name in ("best", "small")] == ["r", None]
    assert await status(cluster) == ("Waiting", {"cpu": "3"}, ["best"])
    words = "waiting for the resources of default/best, and for more to become free"
    message = await waiting_for(cluster)
    assert message.startswith(words)
    assert "preAllocationPolicy.enableMultiple is false" in message
    await cluster.advance(10)
    assert await waiting_for(cluster) == message
    await create_each(cluster, non_owner(cpu="1"))
    assert await is_pending(cluster, "stranger")
    await cluster.delete(PODS, "best", "default")
    assert await waiting_for(cluster) == "waiting for resources to become free"
    await cluster.delete(PODS, "small", "default")
    assert (await status(cluster))[0] == "Available"


@pytest.mark.parametrize("uids", [("1", "2"), ("2", "1")])
def test_R076_of_equal_candidates_the_one_with_the_lower_uid_is_taken(uids):
    rules = PreAllocationRules({0: 2000}, {0: 2000})
    world = World()
    pods = [world.pod_info(typed(running("1", f"p{uid}"), uid=uid)) for uid in uids]
    assert [p.uid for p in choose_pods(rules, {0: 0}, pods).pods] == ["1"]


async def test_R076_where_all_candidates_together_leave_too_little_it_stays_pending(cluster):
    await create_each(cluster, node(), running("14"))
    await create_each(cluster, *[running("1", name, labels=MINE) for name in "ab"])
    await create_each(cluster, pre_allocating(cpu="8"))
    assert (await status(cluster))[0] == "Pending"
    (condition,) = (await cluster.reservation("r")).status.conditions
    assert "Insufficient cpu by node" in condition.message


async def test_R077_a_pod_larger_than_the_reservation_is_skipped(tmp_path):
    async with configured(tmp_path, enableClusterMode=True) as cluster:
        await create_each(cluster, node(), running("11"), pre_allocatable("large", "3", "100"))
        await create_each(cluster, pre_allocatable("a", "1", "90"), pre_allocatable("b", "1", "80"))
        await create_each(cluster, pre_allocating(cpu="2", pre_allocation_policy=SEVERAL))
        taken = [await allocated_from(cluster, name) for name in ("large", "a", "b")]
        assert taken == [None, "r", "r"]


@pytest.mark.parametrize(("prefers", "phase", "taken"), [(True, "Available", None),
                                                          (False, "Waiting", "r")])  # fmt: skip
async def test_R078_pre_allocation_may_be_avoided_where_the_request_fits(
    tmp_path, prefers, phase, taken
):
    async with configured(tmp_path, preferNoPreAllocatedPods=prefers) as cluster:
        await create_each(cluster, node(), running("2", "p", labels=MINE), pre_allocating(cpu="4"))
        assert await allocated_from(cluster, "p") == taken
        assert (await status(cluster))[0] == phase


async def test_R079_required_pre_allocation_without_a_pod_is_rejected(cluster):
    await create_each(cluster, node(), pre_allocating(cpu="4", labels=REQUIRED))
    reservation = await cluster.reservation("r")
    assert reservation.phase == "Pending"
    (condition,) = reservation.status.conditions
    assert "node(s) no pod match reservation with pre allocation required" in condition.message
    await create_each(cluster, running("2", "p", labels=MINE))
    assert (await status(cluster))[0] == "Waiting"
    assert await allocated_from(cluster, "p") == "r"


async def test_a_rejected_reservation_is_requeued_only_for_pre_allocatable_pods(cluster):
    await create_each(cluster, node(), pre_allocating(cpu="4", labels=REQUIRED))
    vain = {"result": "unschedulable", "profile": "default-scheduler"}
    tried = cluster.metric("schedule_attempts_total", **vain)
    await create_each(
        cluster, *[running("1", f"other{i}", labels={"app": f"a{i}"}) for i in range(5)]
    )
    await cluster.advance(20)
    assert cluster.metric("schedule_attempts_total", **vain) == tried
    await cluster.client.patch(PODS, "other3", {"metadata": {"labels": MINE}}, "default")
    await cluster.advance(20)
    assert await allocated_from(cluster, "other3") == "r"


async def test_pods_are_pre_allocated_by_every_kind_of_owner_rule(cluster):
    """Owners by name, controller or namespace are found, not only owners by labels."""
    await create_each(cluster, node(), running("12"), running("2", "a", labels=MINE))
    made = {"apiVersion": "v1", "kind": "Set", "name": "s", "uid": "u", "controller": True}
    await create_each(cluster, running("2", "b", metadata={"ownerReferences": [made]}))
    for name, owners in (("r1", {"controller": {"name": "s"}}), ("r2", {"object": {"name": "a"}})):
        more = {"owners": [owners], "pre_allocation": True, "labels": REQUIRED}
        await create_each(cluster, held(name, cpu="2", **more))
    assert [await allocated_from(cluster, name) for name in ("a", "b")] == ["r2", "r1"]
    elsewhere = [{"object": {"namespace": "elsewhere"}, "labelSelector": {"matchLabels": MINE}}]
    more = {"owners": elsewhere, "pre_allocation": True, "labels": REQUIRED}
    await create_each(cluster, held("r3", cpu="2", **more))
    assert (await status(cluster, "r3"))[0] == "Pending"


async def test_required_pre_allocation_that_is_too_small_says_what_is_short(cluster):
    await create_each(cluster, node(), running("10"), running("6", "p", labels=MINE))
    await create_each(cluster, pre_allocating(cpu="4", labels=REQUIRED))
    (condition,) = (await cluster.reservation("r")).status.conditions
    assert "Reservation(s) Insufficient cpu" in condition.message


async def test_R087_without_a_suitable_pod_it_waits_for_free_resources(cluster):
    await create_each(cluster, node(), *[running("4", f"f{i}") for i in range(4)])
    await create_each(cluster, pre_allocating(cpu="8"))
    assert conditions_of(await cluster.reservation("r")) == {
        ("Scheduled", "True", "Scheduled"), ("Ready", "False", "Waiting"),
    }  # fmt: skip
    await create_each(cluster, non_owner(cpu="4"))
    await cluster.delete(PODS, "f0", "default")
    assert await is_pending(cluster, "stranger"), "freed resources belong to the reservation"
    assert (await status(cluster))[0] == "Waiting"
    await cluster.delete(PODS, "f1", "default")
    assert (await status(cluster))[0] == "Available"
    assert await is_pending(cluster, "stranger")
    await cluster.delete(PODS, "f2", "default")
    await cluster.advance(15)
    assert await cluster.node_of("stranger") == "n1"


async def test_a_waiting_reservation_takes_nothing_from_successive_owners(cluster):
    await create_each(cluster, node(), held("theirs", cpu="4", allocate_once=False), running("12"))
    await create_each(cluster, pre_allocating(cpu="8"))
    assert (await status(cluster))[0] == "Waiting"
    for name in ("a", "b"):
        await create_each(cluster, owner(name, cpu="2"))
        assert await allocated_from(cluster, name) == "theirs"
    await create_each(cluster, owner("c", cpu="2"))
    assert await is_pending(cluster, "c")


async def test_it_waits_on_the_node_with_the_smallest_shortfall(cluster):
    await create_each(cluster, node("n1"), node("n2"))
    await create_each(
        cluster, running("16", "a", "n1"), running("10", "b", "n2"), pre_allocating(cpu="8")
    )
    assert (await cluster.reservation("r")).status.node_name == "n2"


async def test_it_does_not_wait_on_a_node_that_is_too_small(cluster):
    await create_each(cluster, node("n1", cpu="4"), pre_allocating(cpu="8"))
    reservation = await cluster.reservation("r")
    assert reservation.phase == "Pending"
    assert "Insufficient cpu by node" in reservation.status.conditions[0].message


async def test_R088_a_waiting_reservation_fails_with_its_node(cluster):
    await create_each(cluster, node(), running("16"), pre_allocating(cpu="8"))
    await cluster.delete(NODES, "n1")
    assert conditions_of(await cluster.reservation("r")) >= {("Ready", "False", "Expired")}
    assert (await status(cluster))[0] == "Failed"


async def test_pre_allocations_are_known_after_a_restart(cluster):
    await create_each(
        cluster, node(), running("12"), running("4", "p", labels=MINE), pre_allocating(cpu="4")
    )
    await cluster.restart()
    assert requested(cluster) == 16000
    await create_each(cluster, pre_allocating("second", cpu="4"))
    assert await allocated_from(cluster, "p") == "r", "a pod is pre-allocated once"


async def test_annotations_are_removed_if_the_reservation_is_not_bound(tmp_path):
    fault = Fault("conflict", method="PUT", path="/reservations/r/status", times=TRIES)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await create_each(cluster, node(), running("16", "p", labels=MINE), pre_allocating(cpu="4"))
        assert (await status(cluster))[0] == "Pending"
        assert await allocated_from(cluster, "p") is None
        await cluster.advance(15)
        assert (await status(cluster))[0] == "Waiting"


async def test_a_lost_response_does_not_undo_a_pre_allocation(tmp_path):
    fault = Fault("lost", method="PUT", path="/reservations/r/status")

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await create_each(
            cluster, node(), running("12"), running("4", "p", labels=MINE), pre_allocating(cpu="4")
        )
        await cluster.advance(15)
        assert await status(cluster) == ("Waiting", {"cpu": "4"}, ["p"])
        assert await allocated_from(cluster, "p") == "r"


async def test_resources_of_an_assumed_pod_are_not_free(tmp_path):
    """Until the pod is bound, only the scheduler knows of it."""
    fault = Fault("delay", method="POST", path="/pods/late/binding", seconds=20)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await create_each(cluster, node(), non_owner("late", cpu="16"), pre_allocating(cpu="8"))
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


async def test_the_configuration_of_the_guide_has_effect(tmp_path):
    configuration = read(yaml.safe_load(GUIDES))
    (warning,) = configuration.warnings
    assert "plugins.reservation" in warning
    async with Harness(tmp_path / "store", configuration=configuration) as cluster:
        await create_each(
            cluster,
            node(),
            running("10"),
            pre_allocatable("a", "2", "90"),
            pre_allocatable("b", "2", "100"),
        )
        ours = {"template": {"scheduler_name": "koord-scheduler"}, "pre_allocation_policy": CLUSTER}
        await create_each(cluster, pre_allocating("first", cpu="2", **ours))
        assert (await status(cluster, "first"))[0] == "Available"
        await create_each(cluster, pre_allocating("second", cpu="2", **ours))
        assert (await status(cluster, "second")) == ("Waiting", {"cpu": "2"}, ["b"])
