"""A scheduling queue alone, and pods for it."""

from holdfast.api.meta import ObjectMeta
from holdfast.api.pod import Pod, PodSpec
from holdfast.scheduling.framework.events import QueueingStrategy
from holdfast.scheduling.framework.plugin import ClusterEvent
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.state.columns.interner import ResourceNames
from holdfast.state.columns.pod_info import PodInfo
from scheduler.queueing_rules import rules

NAMES = ResourceNames()
EVENT = ClusterEvent("Node", "Add")


def pod_info(name, priority=0):
    meta = ObjectMeta(name=name, namespace="default", uid=name)
    return PodInfo.of(Pod(metadata=meta, spec=PodSpec(priority=priority)), NAMES)


def a_queue(strategy=QueueingStrategy.SKIP, gating_plugin=lambda _: ""):
    return SchedulingQueue(
        rules(queueing_strategy=lambda *_: strategy, gating_plugin=gating_plugin)
    )


def pop_names(queue, now=0.0):
    names = []
    while (pod := queue.pop(now)) is not None:
        names.append(pod.pod_info.name)
    return names
