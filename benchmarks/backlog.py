"""Measure the CPU cost of cluster events while many pods are unschedulable, and of retries.

    python benchmarks/backlog.py [--nodes 5000] [--pods 10000] [--kind equal ...]

Every node is full, or the only unit of the pods' resource policy is, so all pods were rejected.
Events are passed to the event handlers as the informers do, one a second: first events that help no
pod (``idle``), then the deletion of a pod, which may help all of them (``helps``). Figures are CPU
time of this process in microseconds: for an event, and for one attempt (``try``); ``moved`` counts
the requeued pods. Nothing is written.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np

from clusters import ZONE
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import SchedulingFailure, schedule_pod
from holdfast.scheduling.scheduler.event_handlers import EventHandlers
from holdfast.scheduling.scheduler.queueing_hints import QueueingHints
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.testing import a_node, a_pod, a_resource_policy, typed

NAME = "default-scheduler"
EVENTS = 50
PROFILE = default_profiles()[NAME]
GOVERNED = {"app": "governed"}
Pods = Callable[[int], Iterator[dict[str, Any]]]


def equal(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield a_pod(f"p{i}", cpu="2", labels={"app": "web"})


def own_labels(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        labels = {"app": "web", "statefulset.kubernetes.io/pod-name": f"web-{i}"}
        yield a_pod(f"web-{i}", cpu="2", labels=labels)


def classes(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield a_pod(f"p{i}", cpu=f"{2000 + i % 500}m")


def spread(count: int) -> Iterator[dict[str, Any]]:
    constraint = {
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    for i in range(count):
        yield a_pod(
            f"p{i}", cpu="2", labels={"app": "web"}, topology_spread_constraints=[constraint]
        )


def governed(count: int) -> Iterator[dict[str, Any]]:
    """Pods that fit the nodes, but not the only unit of their policy."""
    for i in range(count):
        yield a_pod(f"p{i}", labels=GOVERNED)


KINDS: dict[str, tuple[str, Pods]] = {
    "equal": ("equal pods", equal),
    "labels": ("a label of its own each", own_labels),
    "classes": ("500 classes", classes),
    "spread": ("hard spread over zones", spread),
    "policy": ("full resource policy", governed),
}


@dataclass(frozen=True)
class Result:
    kind: str
    nodes: int
    pods: int
    idle_event_microseconds: float
    helpful_event_microseconds: float
    moved: int
    try_microseconds: float


class Scene:
    """The queue and the event handlers of a scheduler, with a virtual clock."""

    def __init__(self, nodes: int) -> None:
        self.now = 1000.0
        self.world = World()
        for i in range(nodes):
            node = a_node(f"n{i}", cpu="4", memory="16Gi", labels={ZONE: f"z{i % 3}"})
            self.world.upsert(typed(node))
            self.world.upsert(typed(a_pod(f"old{i}", cpu="4", node=f"n{i}", priority=10)))
        unit = {"maxCount": 1, "nodeSelector": {"matchLabels": {ZONE: "z0"}}}
        self.world.upsert(typed(a_resource_policy(pods=GOVERNED, units=[unit])))
        queueing_hints = QueueingHints({NAME: PROFILE}, self.world, lambda: self.now)
        self.moved = 0
        self.queue = SchedulingQueue(queueing_hints, on_move=self._on_move)
        self.handlers = EventHandlers(self.world, self.queue, lambda _: True, lambda: self.now)
        self._rng = np.random.default_rng(1)

    def _on_move(self, queue_name: str, _why: str) -> None:
        self.moved += queue_name in ("active", "backoff")

    def try_all(self) -> int:
        """Schedule every pod once; at most one fits. Return the number of attempts."""
        tried = 0
        self.now += 400  # every backoff has ended
        self.queue.flush(self.now)
        while (queued := self.queue.pop(self.now)) is not None:
            outcome = schedule_pod(
                PROFILE, PROFILE.view(queued.pod_info, self.world, self.now), self._rng
            )
            tried += 1
            if isinstance(outcome, SchedulingFailure):
                self.queue.requeue_unschedulable(
                    queued, outcome.unschedulable_plugins, outcome.pending_plugins, self.now
                )
            else:
                self.queue.done(queued.pod_info.uid)
        return tried


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return microseconds of CPU time, and the result."""
    began = time.process_time()
    found = work()
    return (time.process_time() - began) * 1e6, found


def measure(kind: str, nodes: int, pods: int) -> Result:
    here = Scene(nodes)
    deleted = typed(a_pod("deleted", cpu="100m", node="n0", priority=10, labels=GOVERNED))
    here.handlers.on_pod("added", None, deleted)
    for raw in KINDS[kind][1](pods):
        here.handlers.on_pod("added", None, typed(raw))
    here.try_all()
    gc.collect()
    gc.freeze()
    idle, _ = timed(lambda: idle_events(here))
    here.moved, here.now = 0, here.now + 400
    helpful, _ = timed(lambda: here.handlers.on_pod("deleted", deleted, None))
    moved = here.moved
    trying, tried = timed(here.try_all)
    gc.unfreeze()
    return Result(kind, nodes, pods, idle / EVENTS, helpful, moved, trying / max(1, tried))


def idle_events(here: Scene) -> None:
    """Give nodes more memory, which no pod waits for."""
    for i in range(EVENTS):
        here.now += 1
        node = here.world.nodes.nodes[i]
        assert node is not None
        amounts = {**node.status.allocatable, "memory": "17Gi"}
        status = msgspec.structs.replace(node.status, allocatable=amounts)
        here.handlers.on_node("modified", node, msgspec.structs.replace(node, status=status))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--kind", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    args = parser.parse_args()
    results = []
    print(f"{'pods':28}{'count':>8}{'idle µs':>10}{'helps µs':>12}{'moved':>8}{'try µs':>9}")
    for kind in args.kind:
        found = measure(kind, args.nodes, args.pods)
        results.append(found)
        print(
            f"{KINDS[kind][0]:28}{found.pods:>8}{found.idle_event_microseconds:>10,.0f}"
            f"{found.helpful_event_microseconds:>12,.0f}{found.moved:>8}"
            f"{found.try_microseconds:>9,.0f}",
            flush=True,
        )
    if args.json:
        with open(args.json, "w") as file:
            json.dump([asdict(r) for r in results], file, indent=2)


if __name__ == "__main__":
    main()
