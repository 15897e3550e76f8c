"""Event handlers: the actions of an update, and the changes of world and queue."""

import pytest

from holdfast.api.labels import from_labels
from holdfast.api.scheme import EVENTS, NODES, PODS, RESERVATIONS
from holdfast.scheduling.framework.events import QueueingStrategy
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.event_handlers import EventHandlers, node_changes, pod_changes
from holdfast.scheduling.scheduler.reservation_handlers import ReservationEventHandlers
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.state.columns.interner import CPU
from holdfast.testing import a_node, a_pod, a_reservation, typed
from holdfast.testing.harness import Harness
from scheduler.queueing_rules import rules


def with_condition(status, heartbeat="2030-01-01T00:00:00Z"):
    node = a_node("n")
    node["status"]["conditions"] = [
        {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}
    ]
    return node


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        (a_node(), a_node(), []),
        (a_node(), a_node(cpu="9"), ["UpdateNodeAllocatable"]),
        (a_node(), a_node(labels={"zone": "a"}), ["UpdateNodeLabel"]),
        (a_node(), a_node(taints=[{"key": "k", "effect": "NoSchedule"}]), ["UpdateNodeTaint"]),
        (a_node(unschedulable=True), a_node(), ["UpdateNodeTaint"]),
        (a_node(), a_node(unschedulable=True), []),
        (a_node(), a_node(annotations={"a": "b"}), ["UpdateNodeAnnotation"]),
        (with_condition("False"), with_condition("True"), ["UpdateNodeCondition"]),
        (with_condition("True"), with_condition("True", "2030-01-01T00:00:10Z"), []),
        (
            a_node(unschedulable=True),
            a_node(cpu="9", labels={"zone": "a"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
            ["UpdateNodeTaint", "UpdateNodeAllocatable", "UpdateNodeLabel"],
        ),
    ],
)
def test_actions_of_a_node_update(old, new, changes):
    assert node_changes(typed(old), typed(new)) == changes


OWN_PATCH = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
GATED = {"scheduling_gates": [{"name": "wait"}]}
EVERYTHING = [{"operator": "Exists"}]
DYING = {"deletion_timestamp": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        (a_pod(), a_pod(), []),
        (a_pod(), a_pod(status=OWN_PATCH), []),
        (a_pod(), a_pod(status={"nominatedNodeName": "n"}), []),
        (a_pod(), a_pod(labels={"a": "b"}), ["UpdatePodLabel"]),
        (a_pod(cpu="2"), a_pod(cpu="1"), ["UpdatePodScaleDown"]),
        (a_pod(**GATED), a_pod(), ["UpdatePodSchedulingGatesEliminated"]),
        (a_pod(), a_pod(tolerations=EVERYTHING), ["UpdatePodToleration"]),
        (a_pod(), a_pod(metadata=DYING), ["UpdatePodTerminating"]),
        (a_pod(), a_pod(annotations={"a": "b"}), ["Update"]),
        (a_pod(), a_pod(node_selector={"zone": "a"}), ["Update"]),
        (
            a_pod(),
            a_pod(status={"resourceClaimStatuses": [{"name": "dev", "resourceClaimName": "c"}]}),
            ["UpdatePodGeneratedResourceClaim"],
        ),
        (
            a_pod(**GATED),
            a_pod(labels={"a": "b"}, tolerations=EVERYTHING),
            ["UpdatePodLabel", "UpdatePodSchedulingGatesEliminated", "UpdatePodToleration"],
        ),
    ],
)
def test_actions_of_a_pod_update(old, new, changes):
    assert pod_changes(typed(old), typed(new)) == changes


class Scene:
    """Event handlers with a queue that records events and requeues no pod."""

    def __init__(self):
        self.events = []
        self.world = World()
        self.queue = SchedulingQueue(rules(queueing_strategy=self._queueing_strategy))
        ours = {"default-scheduler", "koord-scheduler"}.__contains__
        self.handlers = EventHandlers(self.world, self.queue, ours, lambda: 0.0)
        self.rejected = []
        self.reservations = ReservationEventHandlers(
            self.handlers, lambda pod_info, message: self.rejected.append((pod_info.name, message))
        )

    def _queueing_strategy(self, _queued, event):
        self.events.append((event.resource, event.action))
        return QueueingStrategy.SKIP

    def add_rejected_pod(self):
        """Add a rejected pod, so that the strategy is computed for every event."""
        self.handlers.on_pod("added", None, typed(a_pod("parked")))
        self.queue.requeue_unschedulable(self.queue.pop(0.0), {"Fit"}, (), 0.0)

    def new_events(self):
        """Return the events since the last call."""
        events, self.events = self.events, []
        return events

    def requested_cpu(self, node="n"):
        return int(self.world.nodes.requested[CPU, self.world.nodes.row_of[node]])


@pytest.fixture
def scene():
    scene = Scene()
    scene.handlers.on_node("added", None, typed(a_node("n", cpu="8")))
    scene.add_rejected_pod()
    return scene


def test_only_pods_of_our_profiles_are_queued_but_all_pods_use_resources(scene):
    scene.handlers.on_pod("added", None, typed(a_pod("theirs", scheduler_name="other")))
    scene.handlers.on_pod("added", None, typed(a_pod("ours", scheduler_name="koord-scheduler")))
    assert scene.queue.pop(0.0).pod_info.name == "ours"
    assert scene.queue.pop(0.0) is None
    scene.handlers.on_pod(
        "added", None, typed(a_pod("bound", scheduler_name="other", node="n", cpu="2"))
    )
    assert scene.requested_cpu() == 2000
    assert scene.new_events() == [("AssignedPod", "Add")]


def test_a_pod_that_is_bound_leaves_the_queue(scene):
    waiting, bound = typed(a_pod("p")), typed(a_pod("p", node="n"))
    scene.handlers.on_pod("added", None, waiting)
    scene.handlers.on_pod("modified", waiting, bound)
    assert (scene.queue.pop(0.0), scene.requested_cpu()) == (None, 1000)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_counts_as_deleted_once(scene, phase):
    running, over = (
        typed(a_pod("p", node="n")),
        typed(a_pod("p", node="n", status={"phase": phase})),
    )
    scene.handlers.on_pod("added", None, running)
    scene.new_events()
    scene.handlers.on_pod("modified", running, over)
    assert (scene.new_events(), scene.requested_cpu()) == ([("AssignedPod", "Delete")], 0)
    scene.handlers.on_pod("deleted", over, None)
    assert scene.new_events() == []


def test_a_pod_that_finished_before_the_start_never_counts(scene):
    scene.handlers.on_pod("added", None, typed(a_pod("p", node="n", status={"phase": "Succeeded"})))
    assert (scene.new_events(), scene.requested_cpu()) == ([], 0)


def test_a_pod_replaced_by_another_of_its_name_is_deleted(scene):
    scene.handlers.on_pod("added", None, typed(a_pod("p", node="n", cpu="3"), uid="first"))
    old, new = typed(a_pod("p", node="n", cpu="3"), uid="first"), typed(a_pod("p"), uid="second")
    scene.handlers.on_pod("modified", old, new)
    assert scene.requested_cpu() == 0
    assert scene.queue.pop(0.0).uid == "second"


def test_a_deleted_assumed_pod_frees_its_resources_and_names_its_node(scene):
    pod = typed(a_pod("p", cpu="3"))
    scene.world.assume(scene.world.pod_info(pod), scene.world.nodes.row_of["n"])
    events = []
    scene.queue.rules = rules(
        queueing_strategy=lambda _, event: events.append(event) or QueueingStrategy.SKIP
    )
    scene.handlers.on_pod("deleted", pod, None)
    assert scene.requested_cpu() == 0
    assert [(e.action, e.old.spec.node_name) for e in events] == [("Delete", "n")]


def test_an_update_of_an_assumed_pod_does_not_queue_it(scene):
    old, new = typed(a_pod("p")), typed(a_pod("p", labels={"a": "b"}))
    scene.world.assume(scene.world.pod_info(old), scene.world.nodes.row_of["n"])
    scene.handlers.on_pod("modified", old, new)
    assert scene.queue.pop(0.0) is None


def assumed(scene, pod):
    """Add a pod and assume it on the node n, as its attempt does."""
    scene.handlers.on_pod("added", None, pod)
    attempt = scene.queue.pop(0.0)
    scene.world.assume(attempt.pod_info, scene.world.nodes.row_of["n"])
    scene.new_events()
    return pod


def test_an_assumed_pod_that_another_scheduler_bound_elsewhere_counts_there(scene):
    scene.handlers.on_node("added", None, typed(a_node("m", cpu="8")))
    old = assumed(scene, typed(a_pod("p", cpu="3")))
    scene.handlers.on_pod("modified", old, typed(a_pod("p", cpu="3", node="m")))
    assert (scene.requested_cpu("n"), scene.requested_cpu("m")) == (0, 3000)
    assert not scene.world.nodes.is_assumed(old.uid)
    assert scene.new_events() == [("AssignedPod", "Add")]


def test_a_pod_that_was_changed_while_it_was_bound_counts_by_its_new_version(scene):
    selector = from_labels({"app": "web"})
    old = assumed(scene, typed(a_pod("p", cpu="3", labels={"app": "db"})))
    web = scene.world.nodes.counter("default", selector)
    assert web.all.sum() == 0
    bound = typed(a_pod("p", cpu="2", labels={"app": "web"}, node="n"))
    scene.handlers.on_pod("modified", old, bound)
    assert scene.requested_cpu() == 2000
    assert scene.world.nodes.counter("default", selector).all.sum() == 1
    assert scene.world.nodes.pod(bound.uid)[0].pod is bound


def test_a_pod_recreated_under_its_name_while_it_was_assumed_is_scheduled_anew(scene):
    old = assumed(scene, typed(a_pod("p", cpu="3"), uid="first"))
    scene.handlers.on_pod("modified", old, typed(a_pod("p", cpu="2"), uid="second"))
    assert scene.requested_cpu() == 0
    found = scene.queue.pop(0.0)
    assert (found.uid, dict(found.pod_info.request)[CPU]) == ("second", 2000)


def test_events_are_kept_for_a_pod_in_flight_when_no_other_pod_waits():
    scene = Scene()
    scene.handlers.on_node("added", None, typed(a_node("n", cpu="8")))
    scene.handlers.on_pod("added", None, typed(a_pod("p")))
    attempt = scene.queue.pop(0.0)
    scene.handlers.on_pod("added", None, typed(a_pod("other", node="n")))
    scene.queue.requeue_unschedulable(attempt, {"Fit"}, (), 0.0)
    assert scene.new_events() == [("AssignedPod", "Add")]


def test_a_heartbeat_makes_no_event(scene):
    before, after = with_condition("True"), with_condition("True", "2030-01-01T00:00:10Z")
    scene.handlers.on_node("modified", typed(before), typed(after))
    assert scene.new_events() == []


def test_pods_of_a_deleted_node_count_again_when_it_returns(scene):
    scene.handlers.on_pod("added", None, typed(a_pod("p", node="n", cpu="3")))
    scene.new_events()
    node = typed(a_node("n", cpu="8"))
    scene.handlers.on_node("deleted", node, None)
    scene.handlers.on_node("added", None, node)
    assert (scene.new_events(), scene.requested_cpu()) == (
        [("Node", "Delete"), ("Node", "Add")],
        3000,
    )


def pending(**more):
    return typed(a_reservation("r", cpu="4", **more))


def scheduled(phase="Available", **status):
    given = {"phase": phase, "nodeName": "n", "allocatable": {"cpu": "4"}, **status}
    return typed(a_reservation("r", cpu="4", status=given))


def test_a_pending_reservation_is_queued_like_a_pod(scene):
    scene.reservations.on_reservation("added", None, pending())
    queued = scene.queue.pop(0.0)
    assert (queued.pod_info.name, queued.pod_info.uid) == ("r", pending().uid)
    assert queued.pod_info.is_reserve_pod


@pytest.mark.parametrize(
    "other",
    [
        pending(template={"scheduler_name": "other"}),
        pending(metadata=DYING),
        scheduled(),
        scheduled("Failed"),
        scheduled("Succeeded"),
    ],
)
def test_other_reservations_are_not_queued(scene, other):
    scene.reservations.on_reservation("added", None, pending())
    scene.reservations.on_reservation("modified", pending(), other)
    assert scene.queue.pop(0.0) is None


def test_events_when_a_reservation_holds_and_frees_resources(scene):
    scene.reservations.on_reservation("modified", pending(), scheduled())
    # A pod was added for all pods, and one deleted for its owners.
    events = [("Reservation", "Add"), ("AssignedPod", "Add"), ("AssignedPod", "Delete")]
    assert (scene.new_events(), scene.requested_cpu()) == (events, 4000)
    scene.reservations.on_reservation("modified", scheduled(), scheduled("Failed"))
    assert (scene.new_events(), scene.requested_cpu()) == ([("AssignedPod", "Delete")], 0)
    scene.reservations.on_reservation("deleted", scheduled("Failed"), None)
    assert scene.new_events() == []


def test_our_own_status_of_a_pending_reservation_makes_no_event(scene):
    events = typed(a_reservation("r", cpu="4", status={"phase": "Pending", **OWN_PATCH}))
    scene.reservations.on_reservation("added", None, pending())
    scene.queue.requeue_unschedulable(scene.queue.pop(0.0), {"Fit"}, (), 0.0)
    scene.reservations.on_reservation("modified", pending(), events)
    assert (scene.queue.pop(0.0), scene.new_events()) == (None, [])


def test_a_changed_reservation_is_activated_at_once(scene):
    scene.reservations.on_reservation("added", None, pending())
    scene.queue.requeue_unschedulable(scene.queue.pop(0.0), {"Fit"}, (), 0.0)
    scene.reservations.on_reservation("modified", pending(), typed(a_reservation("r", cpu="1")))
    assert scene.queue.pop(0.0).pod_info.request == ((CPU, 1000),)


def test_a_reservation_replaced_by_another_of_its_name_is_deleted(scene):
    first = typed(a_reservation("r", cpu="4", status=status_on("n")), uid="first")
    second = typed(a_reservation("r", cpu="4"), uid="second")
    scene.reservations.on_reservation("added", None, first)
    scene.reservations.on_reservation("modified", first, second)
    assert scene.requested_cpu() == 0
    assert scene.queue.pop(0.0).uid == "second"


def status_on(node):
    return {"phase": "Available", "nodeName": node, "allocatable": {"cpu": "4"}}


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


async def attempts(cluster, name):
    found = (await cluster.client.list(EVENTS, "default")).items
    mine = [e for e in found if e.involved_object.name == name and e.reason == "FailedScheduling"]
    return sum(event.count for event in mine)


async def test_our_own_status_does_not_requeue_a_pod(cluster):
    await cluster.create(a_node("n", cpu="1"), a_reservation("r", cpu="3"), a_pod("p", cpu="3"))
    await cluster.advance(60)
    assert (await attempts(cluster, "p"), await attempts(cluster, "r")) == (1, 1)


async def test_a_pod_is_requeued_when_a_reservation_expires_or_is_deleted(cluster):
    await cluster.create(a_node("n", cpu="4"))
    await cluster.create(a_reservation("r", cpu="4", ttl="20s"))
    await cluster.create(a_pod("p", cpu="2"))
    assert await cluster.node_of("p") == ""
    await cluster.advance(30)
    assert await cluster.node_of("p") == "n"
    await cluster.create(a_reservation("s", cpu="2"))
    await cluster.create(a_pod("q", cpu="2"))
    await cluster.delete(RESERVATIONS, "s")
    await cluster.advance(12)
    assert await cluster.node_of("q") == "n"


async def test_an_owner_created_before_its_reservation_is_requeued(cluster):
    """It was rejected for lack of the resources that the reservation just got."""
    await cluster.create(a_node("n", cpu="4"))
    await cluster.create(
        a_reservation("r", cpu="4", owner_labels={"app": "web"}),
        a_pod("p", cpu="4", labels={"app": "web"}),
    )
    await cluster.advance(12)
    assert await cluster.node_of("p") == "n"
    assert (await cluster.reservation("r")).phase == "Succeeded"


async def test_a_pod_is_requeued_when_its_labels_make_it_an_owner(cluster):
    await cluster.create(
        a_node("n", cpu="4"), a_reservation("r", owner_labels={"app": "web"}, cpu="4")
    )
    await cluster.create(a_pod("p", cpu="4"))
    assert await cluster.node_of("p") == ""
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"app": "web"}}}, "default")
    await cluster.advance(12)
    assert await cluster.node_of("p") == "n"


async def test_a_pod_with_reservation_affinity_is_requeued_when_it_becomes_an_owner(cluster):
    await cluster.create(a_node("n"), a_reservation("r", owner_labels={"app": "web"}))
    affinity = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
    await cluster.create(a_pod("p", annotations=affinity))
    assert await cluster.node_of("p") == ""
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"app": "web"}}}, "default")
    await cluster.advance(12)
    assert await cluster.node_of("p") == "n"


async def test_a_pod_with_reservation_affinity_is_requeued_when_a_node_gets_the_label(cluster):
    await cluster.create(a_node("n"), a_reservation("r", owner_labels={"app": "web"}))
    selector = '{"reservationSelector":{"zone":"a"}}'
    affinity = {"scheduling.koordinator.sh/reservation-affinity": selector}
    await cluster.create(a_pod("p", labels={"app": "web"}, annotations=affinity))
    assert await cluster.node_of("p") == ""
    await cluster.client.patch(NODES, "n", {"metadata": {"labels": {"zone": "a"}}})
    await cluster.advance(12)
    assert await cluster.node_of("p") == "n"


async def test_pods_are_requeued_when_a_node_is_uncordoned(cluster):
    await cluster.create(a_node("n", unschedulable=True), a_pod("p"))
    assert await cluster.node_of("p") == ""
    await cluster.client.patch(NODES, "n", {"spec": {"unschedulable": None}})
    await cluster.advance(12)
    assert await cluster.node_of("p") == "n"


def test_a_nomination_lasts_while_the_pod_is_nominated_to_that_node(scene):
    def nominated(node):
        return typed(a_pod("w", cpu="1", status={"nominatedNodeName": node} if node else {}))

    nominations = scene.world.nominations
    scene.handlers.on_pod("added", None, nominated("n"))
    assert [pod.name for pod in nominations.on("n").values()] == ["w"]
    scene.handlers.on_pod("modified", nominated("n"), nominated("m"))
    assert (list(nominations.on("n")), len(nominations.on("m"))) == ([], 1)
    scene.handlers.on_pod("modified", nominated("m"), nominated(""))
    assert not nominations
    scene.handlers.on_pod("modified", nominated(""), nominated("n"))
    scene.new_events()
    scene.handlers.on_pod("deleted", nominated("n"), None)
    assert not nominations
    assert scene.new_events() == [("AssignedPod", "Delete")]


async def test_another_pod_does_not_use_the_resources_of_a_nominated_pod(tmp_path):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_node("n", cpu="4"))
        await cluster.create(a_pod("first", cpu="4", scheduling_gates=[{"name": "wait"}]))
        await cluster.client.patch(
            PODS, "first", {"status": {"nominatedNodeName": "n"}}, "default",
            subresource="status",
        )  # fmt: skip
        await cluster.create(a_pod("other", cpu="1"))
        assert await cluster.node_of("other") == ""
        await cluster.delete(PODS, "first", "default")
        await cluster.advance(15)
        assert await cluster.node_of("other") == "n"
