"""How news arrives: what counts as a change, and what the world and the queue make of it."""

import pytest

from holdfast.api.scheme import EVENTS, NODES, PODS, RESERVATIONS
from holdfast.columns.interner import CPU
from holdfast.framework.world import World
from holdfast.scheduler.event_handlers import EventHandlers, node_changes, pod_changes
from holdfast.scheduler.queued_pods import QueueingStrategy
from holdfast.scheduler.reservation_news import ReservationDesk
from holdfast.scheduler.scheduling_queue import SchedulingQueue
from holdfast.testing import a_node, a_pod, a_reservation, typed
from holdfast.testing.harness import Harness


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
def test_a_node_says_what_changed_about_it(old, new, changes):
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
def test_a_pod_says_what_changed_about_it(old, new, changes):
    assert pod_changes(typed(old), typed(new)) == changes


class Desk:
    """A desk whose queue only notes what it is told; nothing is ever worth another try."""

    def __init__(self):
        self.told = []
        self.world = World()
        self.queue = SchedulingQueue(queueing_strategy=self._queueing_strategy)
        ours = {"default-scheduler", "koord-scheduler"}.__contains__
        self.news = EventHandlers(self.world, self.queue, ours, lambda: 0.0)
        self.refused = []
        self.reservations = ReservationDesk(
            self.news, lambda pod_info, words: self.refused.append((pod_info.name, words))
        )

    def _queueing_strategy(self, _queued, event):
        self.told.append((event.resource, event.action))
        return QueueingStrategy.SKIP

    def park(self):
        """Have one rejected pod wait, so that every event is weighed for it."""
        self.news.on_pod("added", None, typed(a_pod("parked")))
        self.queue.requeue_unschedulable(self.queue.pop(0.0), {"Fit"}, (), 0.0)

    def heard(self):
        """What was told since the last time."""
        told, self.told = self.told, []
        return told

    def taken(self, node="n"):
        return int(self.world.nodes.requested[CPU, self.world.nodes.row_of[node]])


@pytest.fixture
def desk():
    desk = Desk()
    desk.news.on_node("added", None, typed(a_node("n", cpu="8")))
    desk.park()
    return desk


def test_only_pods_of_our_profiles_are_queued_but_everybodys_take_room(desk):
    desk.news.on_pod("added", None, typed(a_pod("theirs", scheduler_name="other")))
    desk.news.on_pod("added", None, typed(a_pod("ours", scheduler_name="koord-scheduler")))
    assert desk.queue.pop(0.0).pod_info.name == "ours"
    assert desk.queue.pop(0.0) is None
    desk.news.on_pod(
        "added", None, typed(a_pod("bound", scheduler_name="other", node="n", cpu="2"))
    )
    assert desk.taken() == 2000
    assert desk.heard() == [("AssignedPod", "Add")]


def test_a_pod_that_is_bound_leaves_the_queue(desk):
    waiting, bound = typed(a_pod("p")), typed(a_pod("p", node="n"))
    desk.news.on_pod("added", None, waiting)
    desk.news.on_pod("modified", waiting, bound)
    assert (desk.queue.pop(0.0), desk.taken()) == (None, 1000)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_counts_as_gone_and_goes_once(desk, phase):
    running, over = (
        typed(a_pod("p", node="n")),
        typed(a_pod("p", node="n", status={"phase": phase})),
    )
    desk.news.on_pod("added", None, running)
    desk.heard()
    desk.news.on_pod("modified", running, over)
    assert (desk.heard(), desk.taken()) == ([("AssignedPod", "Delete")], 0)
    desk.news.on_pod("deleted", over, None)
    assert desk.heard() == []


def test_a_pod_finished_before_we_came_never_counts(desk):
    desk.news.on_pod("added", None, typed(a_pod("p", node="n", status={"phase": "Succeeded"})))
    assert (desk.heard(), desk.taken()) == ([], 0)


def test_a_pod_replaced_by_another_of_its_name_is_gone(desk):
    desk.news.on_pod("added", None, typed(a_pod("p", node="n", cpu="3"), uid="first"))
    old, new = typed(a_pod("p", node="n", cpu="3"), uid="first"), typed(a_pod("p"), uid="second")
    desk.news.on_pod("modified", old, new)
    assert desk.taken() == 0
    assert desk.queue.pop(0.0).uid == "second"


def test_an_assumed_pod_that_is_deleted_gives_its_room_back_and_tells_where(desk):
    pod = typed(a_pod("p", cpu="3"))
    desk.world.assume(desk.world.pod_info(pod), desk.world.nodes.row_of["n"])
    events = []
    desk.queue.queueing_strategy = lambda _, event: events.append(event) or QueueingStrategy.SKIP
    desk.news.on_pod("deleted", pod, None)
    assert desk.taken() == 0
    assert [(e.action, e.old.spec.node_name) for e in events] == [("Delete", "n")]


def test_news_about_an_assumed_pod_does_not_queue_it_again(desk):
    old, new = typed(a_pod("p")), typed(a_pod("p", labels={"a": "b"}))
    desk.world.assume(desk.world.pod_info(old), desk.world.nodes.row_of["n"])
    desk.news.on_pod("modified", old, new)
    assert desk.queue.pop(0.0) is None


def test_a_heartbeat_is_no_news(desk):
    before, after = with_condition("True"), with_condition("True", "2030-01-01T00:00:10Z")
    desk.news.on_node("modified", typed(before), typed(after))
    assert desk.heard() == []


def test_a_node_that_goes_takes_its_room_with_it_and_brings_it_back(desk):
    desk.news.on_pod("added", None, typed(a_pod("p", node="n", cpu="3")))
    desk.heard()
    node = typed(a_node("n", cpu="8"))
    desk.news.on_node("deleted", node, None)
    desk.news.on_node("added", None, node)
    assert (desk.heard(), desk.taken()) == ([("Node", "Delete"), ("Node", "Add")], 3000)


def pending(**more):
    return typed(a_reservation("r", cpu="4", **more))


def settled(phase="Available", **status):
    given = {"phase": phase, "nodeName": "n", "allocatable": {"cpu": "4"}, **status}
    return typed(a_reservation("r", cpu="4", status=given))


def test_a_pending_reservation_queues_like_a_pod(desk):
    desk.reservations.on_reservation("added", None, pending())
    queued = desk.queue.pop(0.0)
    assert (queued.pod_info.name, queued.pod_info.uid) == ("r", pending().uid)
    assert queued.pod_info.is_reserve_pod


@pytest.mark.parametrize(
    "other",
    [
        pending(template={"scheduler_name": "other"}),
        pending(metadata=DYING),
        settled(),
        settled("Failed"),
        settled("Succeeded"),
    ],
)
def test_any_other_reservation_does_not(desk, other):
    desk.reservations.on_reservation("added", None, pending())
    desk.reservations.on_reservation("modified", pending(), other)
    assert desk.queue.pop(0.0) is None


def test_room_that_a_reservation_holds_and_gives_back_is_told(desk):
    desk.reservations.on_reservation("modified", pending(), settled())
    # A neighbour more for everybody, room made for its owners.
    told = [("Reservation", "Add"), ("AssignedPod", "Add"), ("AssignedPod", "Delete")]
    assert (desk.heard(), desk.taken()) == (told, 4000)
    desk.reservations.on_reservation("modified", settled(), settled("Failed"))
    assert (desk.heard(), desk.taken()) == ([("AssignedPod", "Delete")], 0)
    desk.reservations.on_reservation("deleted", settled("Failed"), None)
    assert desk.heard() == []


def test_the_words_we_write_ourselves_on_a_pending_reservation_are_no_news(desk):
    told = typed(a_reservation("r", cpu="4", status={"phase": "Pending", **OWN_PATCH}))
    desk.reservations.on_reservation("added", None, pending())
    desk.queue.requeue_unschedulable(desk.queue.pop(0.0), {"Fit"}, (), 0.0)
    desk.reservations.on_reservation("modified", pending(), told)
    assert (desk.queue.pop(0.0), desk.heard()) == (None, [])


def test_a_reservation_asked_for_anew_is_tried_at_once(desk):
    desk.reservations.on_reservation("added", None, pending())
    desk.queue.requeue_unschedulable(desk.queue.pop(0.0), {"Fit"}, (), 0.0)
    desk.reservations.on_reservation("modified", pending(), typed(a_reservation("r", cpu="1")))
    assert desk.queue.pop(0.0).pod_info.request == ((CPU, 1000),)


def test_a_reservation_replaced_by_another_of_its_name_is_gone(desk):
    first = typed(a_reservation("r", cpu="4", status=status_on("n")), uid="first")
    second = typed(a_reservation("r", cpu="4"), uid="second")
    desk.reservations.on_reservation("added", None, first)
    desk.reservations.on_reservation("modified", first, second)
    assert desk.taken() == 0
    assert desk.queue.pop(0.0).uid == "second"


def status_on(node):
    return {"phase": "Available", "nodeName": node, "allocatable": {"cpu": "4"}}


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


async def tries(cluster, name):
    found = (await cluster.client.list(EVENTS, "default")).items
    mine = [e for e in found if e.involved_object.name == name and e.reason == "FailedScheduling"]
    return sum(event.count for event in mine)


async def test_our_own_words_do_not_make_a_pod_go_round_in_circles(cluster):
    await cluster.create(a_node("n", cpu="1"), a_reservation("r", cpu="3"), a_pod("p", cpu="3"))
    await cluster.advance(60)
    assert (await tries(cluster, "p"), await tries(cluster, "r")) == (1, 1)


async def test_a_pod_is_tried_again_when_a_reservation_expires_or_is_deleted(cluster):
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


async def test_an_owner_that_came_too_early_gets_its_reservation(cluster):
    """It is turned away for want of the very room that is being reserved for it."""
    await cluster.create(a_node("n", cpu="4"))
    await cluster.create(
        a_reservation("r", cpu="4", owner_labels={"app": "web"}),
        a_pod("p", cpu="4", labels={"app": "web"}),
    )
    await cluster.advance(12)
    assert await cluster.node_of("p") == "n"
    assert (await cluster.reservation("r")).phase == "Succeeded"


async def test_a_waiting_pod_is_tried_when_its_labels_make_it_an_owner(cluster):
    await cluster.create(
        a_node("n", cpu="4"), a_reservation("r", owner_labels={"app": "web"}, cpu="4")
    )
    await cluster.create(a_pod("p", cpu="4"))
    assert await cluster.node_of("p") == ""
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"app": "web"}}}, "default")
    await cluster.advance(12)
    assert await cluster.node_of("p") == "n"


async def test_a_pod_that_must_use_a_reservation_is_tried_when_it_comes_to_own_one(cluster):
    await cluster.create(a_node("n"), a_reservation("r", owner_labels={"app": "web"}))
    affinity = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
    await cluster.create(a_pod("p", annotations=affinity))
    assert await cluster.node_of("p") == ""
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"app": "web"}}}, "default")
    await cluster.advance(12)
    assert await cluster.node_of("p") == "n"


async def test_a_pod_that_asks_for_a_labelled_node_is_tried_when_the_node_is_labelled(cluster):
    await cluster.create(a_node("n"), a_reservation("r", owner_labels={"app": "web"}))
    wish = '{"reservationSelector":{"zone":"a"}}'
    affinity = {"scheduling.koordinator.sh/reservation-affinity": wish}
    await cluster.create(a_pod("p", labels={"app": "web"}, annotations=affinity))
    assert await cluster.node_of("p") == ""
    await cluster.client.patch(NODES, "n", {"metadata": {"labels": {"zone": "a"}}})
    await cluster.advance(12)
    assert await cluster.node_of("p") == "n"


async def test_a_node_that_is_uncordoned_takes_who_waits(cluster):
    await cluster.create(a_node("n", unschedulable=True), a_pod("p"))
    assert await cluster.node_of("p") == ""
    await cluster.client.patch(NODES, "n", {"spec": {"unschedulable": None}})
    await cluster.advance(12)
    assert await cluster.node_of("p") == "n"


def test_room_is_kept_for_a_nominated_pod_as_long_as_it_waits_for_that_node(desk):
    def nominated(node):
        return typed(a_pod("w", cpu="1", status={"nominatedNodeName": node} if node else {}))

    nominations = desk.world.nominations
    desk.news.on_pod("added", None, nominated("n"))
    assert [pod.name for pod in nominations.on("n").values()] == ["w"]
    desk.news.on_pod("modified", nominated("n"), nominated("m"))
    assert (list(nominations.on("n")), len(nominations.on("m"))) == ([], 1)
    desk.news.on_pod("modified", nominated("m"), nominated(""))
    assert not nominations
    desk.news.on_pod("modified", nominated(""), nominated("n"))
    desk.heard()
    desk.news.on_pod("deleted", nominated("n"), None)
    assert not nominations
    assert desk.heard() == [("AssignedPod", "Delete")]


async def test_a_stranger_leaves_room_for_a_nominated_pod(tmp_path):
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
