"""The scheduling queue inside a running scheduler: order, retries and reports."""

from holdfast.api.scheme import EVENTS, NODES, PODS
from holdfast.state.columns.interner import CPU
from holdfast.testing import (
    Fault,
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_priority_class,
    a_slice,
)

BINDING = {"method": "POST", "path": "/binding"}


def pending(cluster, queue):
    return cluster.metric("pending_pods", queue=queue)


def requested_cpu(cluster, node="n"):
    return int(cluster.world.nodes.requested[CPU, cluster.world.nodes.row_of[node]])


async def failures(cluster, name):
    """Count the FailedScheduling events of a pod."""
    events = (await cluster.client.list(EVENTS, "default")).items
    return sum(
        e.count for e in events if e.involved_object.name == name and e.reason == "FailedScheduling"
    )


async def in_flight(cluster, name):
    """Pop a pod from the queue as if its attempt had begun."""
    queue = cluster.components.scheduler.queue
    queue.activate([(await cluster.pod(name)).uid])
    return queue.pop(cluster.clock.now())


async def test_S009_pods_are_scheduled_by_priority_then_by_age(cluster):
    classes = [a_priority_class(f"c{value}", value) for value in (10, 20, 30)]
    await cluster.create(a_node("n", cpu="1"), *classes)
    await cluster.create(a_pod("blocker", priority_class_name="c30"))
    for name in ("first", "second"):
        await cluster.create(a_pod(name, priority_class_name="c10"))
        await cluster.advance(1)
    await cluster.create(a_pod("twenty", priority_class_name="c20"))
    await cluster.advance(15)
    await cluster.delete(PODS, "blocker", "default")
    assert await cluster.node_of("twenty") == "n"
    await cluster.advance(15)
    await cluster.delete(PODS, "twenty", "default")
    assert await cluster.node_of("first") == "n"


async def test_S009_a_failed_pod_is_queued_behind_its_equals(cluster):
    await cluster.create(a_node("n", cpu="1"), a_pod("blocker"))
    await cluster.create(a_pod("first"))
    await cluster.advance(1)
    await cluster.create(a_pod("second"))
    await cluster.advance(15)
    cluster.components.scheduler.queue.activate([(await cluster.pod("first")).uid])
    await cluster.advance(15)
    assert await failures(cluster, "first") == 2
    await cluster.delete(PODS, "blocker", "default")
    assert await cluster.node_of("second") == "n"


async def test_S011_an_idle_scheduler_does_not_wait_for_backoff(cluster):
    await cluster.create(a_node("n", cpu="1"), a_pod("blocker"), a_pod("p"))
    for _ in range(3):
        await failed_at_binding(cluster, "p")
    early = {"queue": "active", "event": "PopFromBackoffQ"}
    before = cluster.metric("queue_incoming_pods_total", **early)
    await cluster.delete(PODS, "blocker", "default")
    assert await cluster.node_of("p") == "n"
    assert cluster.metric("queue_incoming_pods_total", **early) == before + 1


async def failed_at_binding(cluster, name):
    cluster.components.scheduler.queue.activate([(await cluster.pod(name)).uid])
    await cluster.settle()


async def test_S011_backoff_after_an_error_is_not_shortened(cluster, network):
    network.add(Fault("conflict", **BINDING))
    await cluster.create(a_node("n"), a_pod("p"))
    await cluster.advance(0.9)
    assert (await cluster.node_of("p"), pending(cluster, "backoff")) == ("", 1)
    await cluster.advance(1.1)
    assert await cluster.node_of("p") == "n"


async def test_S012_failed_bindings_are_retried_after_one_two_and_four_seconds(cluster, network):
    network.add(Fault("unavailable", times=3, **BINDING))
    await cluster.create(a_node("n"), a_pod("p"))
    seconds = [0]
    (condition,) = (await cluster.pod("p")).status.conditions
    assert condition.reason == "SchedulerError"
    for second in range(1, 12):
        reported = await failures(cluster, "p")
        await cluster.advance(1)
        if await failures(cluster, "p") > reported or await cluster.node_of("p"):
            seconds.append(second)
        if await cluster.node_of("p"):
            break
    # Each waits through the second its backoff ends in: 0+1, 2+2, 5+4.
    assert seconds == [0, 2, 5, 10]


async def test_S013_a_gated_pod_is_not_tried_until_its_last_gate_is_removed(cluster):
    gates = [{"name": "a"}, {"name": "b"}]
    await cluster.create(a_node("n"), a_pod("p", scheduling_gates=gates))
    assert (pending(cluster, "gated"), await cluster.events("p")) == (1, [])
    assert cluster.metric("unschedulable_pods", plugin="SchedulingGates",
                  profile="default-scheduler") == 1  # fmt: skip
    for left in (gates[1:], []):
        assert await cluster.node_of("p") == ""
        patch = {"spec": {"schedulingGates": left or None}}
        await cluster.client.patch(PODS, "p", patch, "default")
        await cluster.settle()
    assert await cluster.node_of("p") == "n"
    assert cluster.metric("schedule_attempts_total", result="scheduled",
                  profile="default-scheduler") == 1  # fmt: skip
    entered = {"queue": "active", "event": "UnschedulablePodUpdatePodSchedulingGatesEliminated"}
    assert cluster.metric("queue_incoming_pods_total", **entered) == 1


async def test_S014_a_rejected_pod_is_flushed_after_five_minutes_but_not_a_gated_one(cluster):
    await cluster.create(a_node("n", cpu="1"), a_pod("big", cpu="2"))
    await cluster.create(a_pod("gated", scheduling_gates=[{"name": "a"}]))
    await cluster.advance(299)
    assert await failures(cluster, "big") == 1
    await cluster.advance(32)
    assert await failures(cluster, "big") == 2
    await cluster.advance(60)
    assert (pending(cluster, "gated"), pending(cluster, "unschedulable")) == (1, 1)
    timed_out = {"queue": "active", "event": "UnschedulableTimeout"}
    assert cluster.metric("queue_incoming_pods_total", **timed_out) == 1


async def test_S016_the_deletion_of_a_pod_during_the_attempt_is_not_missed(cluster):
    await cluster.create(a_node("n", cpu="1"), a_pod("blocker"), a_pod("p"))
    queued = await in_flight(cluster, "p")
    await cluster.delete(PODS, "blocker", "default")
    queue, now = cluster.components.scheduler.queue, cluster.clock.now()
    queue.requeue_unschedulable(queued, {"NodeResourcesFit"}, (), now)
    assert queue.counts()["backoff"] == 1


async def test_S017_an_event_that_does_not_help_leaves_the_pod_unschedulable(cluster):
    other = a_pod("other", scheduling_gates=[{"name": "wait"}])
    await cluster.create(a_node("n", cpu="1"), a_pod("blocker"), a_pod("p"), other)
    queued = await in_flight(cluster, "p")
    await cluster.client.patch(PODS, "other", {"metadata": {"labels": {"a": "b"}}}, "default")
    await cluster.settle()
    queue, now = cluster.components.scheduler.queue, cluster.clock.now()
    queue.requeue_unschedulable(queued, {"NodeResourcesFit"}, (), now)
    assert queue.counts()["unschedulable"] == 1


async def test_S027_a_long_message_is_truncated_in_the_event_but_not_in_the_condition(cluster):
    wanted = {f"example.com/a-resource-with-a-long-name-{i:02}": "1" for i in range(40)}
    await cluster.create(a_node("n"), a_pod("p", requests=wanted, limits=wanted))
    whole = await cluster.why("p")
    assert len(whole) > 1500
    ((_, note),) = await cluster.events("p")
    assert (len(note.encode()), note) == (1024, whole[:1020] + " ...")


async def test_S028_the_same_failure_twice_is_one_patch_and_two_events(cluster):
    await cluster.create(a_node("n", cpu="1"), a_pod("p", cpu="2"))
    version = (await cluster.pod("p")).metadata.resource_version
    await failed_at_binding(cluster, "p")
    assert await failures(cluster, "p") == 2
    assert (await cluster.pod("p")).metadata.resource_version == version


def using_a_device(name, **more):
    return a_pod(name, claims=[{"name": "dev", "resourceClaimName": name}], **more)


async def test_S032_a_pod_deleted_before_it_is_bound_frees_its_resources_at_once(cluster, network):
    await cluster.create(a_node("n", cpu="4"), a_device_class("gpu"), a_slice("s", node="n"))
    await cluster.create(a_claim("a"))
    network.add(Fault("delay", method="PATCH", path="/resourceclaims/a/status", seconds=30))
    await cluster.create(using_a_device("a", cpu="4"), a_pod("waits", cpu="4"))
    assert await cluster.node_of("waits") == ""
    await cluster.delete(PODS, "a", "default")
    await cluster.advance(2)
    assert await cluster.node_of("waits") == "n"
    await cluster.advance(60)
    assert (requested_cpu(cluster), len(cluster.components.scheduler.queue)) == (4000, 0)


async def test_S033_a_conflict_at_binding_clears_the_nomination(cluster, network):
    await cluster.create(a_node("n", cpu="4"), a_device_class("gpu"), a_slice("s", node="n"))
    network.add(Fault("delay", method="PATCH", path="/resourceclaims/a/status", seconds=1))
    network.add(Fault("conflict", **BINDING))
    await cluster.create(a_claim("a"), using_a_device("a", cpu="4"))
    assert (await cluster.pod("a")).status.nominated_node_name == "n"
    await cluster.advance(1)
    pod = await cluster.pod("a")
    (condition,) = pod.status.conditions
    assert (pod.status.nominated_node_name, condition.reason) == ("", "SchedulerError")
    assert [reason for reason, _ in await cluster.events("a")] == ["FailedScheduling"]
    assert requested_cpu(cluster) == 0


async def test_metrics_name_the_event_that_requeued_a_pod(cluster):
    await cluster.create(a_node("n", cpu="1"), a_pod("p", cpu="2"))
    await cluster.advance(15)
    amounts = {"cpu": "4", "memory": "1Gi", "pods": "9"}
    await cluster.client.patch(
        NODES, "n", {"status": {"allocatable": amounts, "capacity": amounts}}, subresource="status"
    )
    await cluster.settle()
    assert await cluster.node_of("p") == "n"
    entered = {"queue": "active", "event": "NodeUpdateNodeAllocatable"}
    assert cluster.metric("queue_incoming_pods_total", **entered) == 1
    assert cluster.metric("preemption_attempts_total") == 1
