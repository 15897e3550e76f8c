"""Upstream's tables of score normalization, queue order, victim order and the fit error."""

import msgspec
import numpy as np

from holdfast.api.decode import convert_object
from holdfast.api.node import Taint
from holdfast.api.tolerations import find_untolerated
from holdfast.api.workloads import PodDisruptionBudget
from holdfast.scheduling.engine.disruption_budgets import DisruptionBudgets
from holdfast.scheduling.engine.preemption import importance_key
from holdfast.scheduling.framework.events import QueueingStrategy
from holdfast.scheduling.framework.plugin import Code, NodeFilter, Plugin, PostFilterResult, Reject
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.node_affinity import MatchingNodes
from holdfast.scheduling.plugins.taint_toleration import ToleratedTaints
from holdfast.scheduling.scheduler.cycle import fit_error
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from parity.harness import parity
from parity.scheduling import pod
from scheduler.queueing_rules import rules

FILE = "scheduler_misc.jsonl"


@parity(FILE, "TestDefaultNormalizeScore")
def test_scale(record):
    plan = ToleratedTaints if record.input["reverse"] else MatchingNodes
    raw = np.array(record.input["scores"], np.float64)
    assert record.input["maxScore"] == 100
    scaled = plan.normalize_by_range(None, raw, raw.min(), raw.max())
    assert scaled.tolist() == record.expected["scores"]


@parity(FILE, "TestDoNotScheduleTaintsFilterFunc")
def test_taints_that_filter(record):
    taint = convert_object(record.input["taint"], Taint)
    assert (find_untolerated([taint], ()) is not None) == record.expected["expected"]


@parity(FILE, "queuesort/priority_sort_test.go:TestLess")
def test_order_of_the_queue(record):
    """Equal pods keep their order, so p1 precedes p2 only if it is less."""
    queue, world = (
        SchedulingQueue(rules(queueing_strategy=lambda *_: QueueingStrategy.SKIP)),
        World(),
    )
    for uid in ("p2", "p1"):
        one = record.input[uid]
        pod_info = msgspec.structs.replace(world.pod_info(pod(one["pod"])), uid=uid)
        queue.add(pod_info, one["timestamp"] / 1e9)
    assert (queue.pop(0.0).uid == "p1") == record.expected["less"]


class Spoken(Plugin):
    name = "Spoken"


class RejectsEach(NodeFilter):
    """Rejects each row with the reasons of the record."""

    def __init__(self, words):
        self._words = words

    def reasons(self, row):
        return tuple(self._words[row])


@parity(FILE, "TestFitError_Error")
def test_fit_error(record):
    diagnosis, count = record.input["diagnosis"], record.input["numAllNodes"]
    statuses = diagnosis["nodeToStatus"]["nodeToStatus"]
    filters = ((Spoken(), RejectsEach([one["reasons"] for one in statuses.values()])),)
    first = diagnosis["preFilterMsg"]
    world = World()
    pod_info = world.pod_info(pod(record.input["pod"]))
    rejection = Rejection(
        pod=pod_info, view=View(world, pod_info, 0.0), nodes=count, filters=filters,
        codes=np.ones(len(statuses), np.int8), plugin_of=np.zeros(len(statuses), np.int8),
        pre_filter_reject=("Spoken", Reject(Code.UNSCHEDULABLE, (first,))) if first else None,
    )  # fmt: skip
    last = diagnosis["postFilterMsg"]
    effect = PostFilterResult("Spoken", last) if last else None
    assert fit_error(rejection, effect) == record.expected["wantReasonMsg"]


def victim(world, raw):
    """Return a victim; upstream's record has priority and start time separately."""
    found = dict((raw["pods"] or [{}])[0])
    found["spec"] = {**found.get("spec", {}), "priority": raw["priority"]}
    found["status"] = {"startTime": raw["earliestStartTime"]}
    return world.pod_info(pod(found))


@parity("preemption.jsonl", "TestMoreImportantVictim")
def test_importance(record):
    first, second = (importance_key(victim(World(), record.input[k]), 0.0) for k in ("vi1", "vi2"))
    assert (first < second) == record.expected["want"]


@parity("preemption.jsonl", "TestFilterVictimsWithPDBViolation")
def test_budgets(record):
    world = World()
    for raw in record.input["pdbs"] or ():
        world.upsert(convert_object(raw, PodDisruptionBudget))
    victims = [victim(world, raw) for raw in record.input["victims"] or ()]
    budgets = DisruptionBudgets(world)
    budgets.refresh()
    beyond = {victims[place].uid for place in budgets.violating(victims)}

    def named(raws):
        return [one["pods"][0]["metadata"]["name"] for one in raws or ()]

    assert [v.name for v in victims if v.uid in beyond] == named(
        record.expected["expectedViolating"]
    )
    assert [v.name for v in victims if v.uid not in beyond] == named(
        record.expected["expectedNonViolating"]
    )
