"""Measure preemptions for devices: a pod of lower priority holds every device.

    python benchmarks/device_preemption.py [--nodes 200 1000] [--count 20]

Each node has eight devices, each with a pod, of priorities 0 to 7; the preemptor needs two devices.
The rate is that of the PostFilter plugins after the first preemption, per second of CPU time. The
longest step is that of the first preemption or of its preparation, in CPU time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from decisions import NOW
from devices import CARDS, DRIVER, PROFILE, a_result, an_allocation
from holdfast.cli import garbage_collection
from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.post_filter import run_post_filter_plugins_by_tier
from holdfast.scheduling.engine.preparation import prepare_in_steps
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice, typed


def a_full_cluster(nodes: int) -> World:
    """Return a cluster in which all devices are in use."""
    world = World()
    world.upsert(typed(a_device_class("gpu")))
    for i in range(nodes):
        node = f"n{i}"
        world.upsert(typed(a_node(node, cpu="64")))
        world.upsert(typed(a_slice(f"{node}-gpu", node=node, driver=DRIVER, devices=CARDS)))
        for card in range(CARDS):
            name = f"p{i}-{card}"
            pod = typed(a_pod(name, node=node, priority=card, claims=[_using(f"c{name}")]))
            user = {"resource": "pods", "name": name, "uid": pod.uid}
            allocation = an_allocation(node, a_result(node, card))
            status = {"allocation": allocation, "reservedFor": [user]}
            world.upsert(typed(a_claim(f"c{name}", status=status)))
            world.upsert(pod)
    return world


def _using(claim: str) -> dict[str, str]:
    return {"name": "d", "resourceClaimName": claim}


def measure(nodes: int, count: int = 20) -> tuple[float, float]:
    """Return preemptions per second and the seconds of the longest step, in CPU time."""
    world = a_full_cluster(nodes)
    world.upsert(typed(a_claim("wanted", count=2)))
    pod = world.pod_info(typed(a_pod("preemptor", priority=1000, claims=[_using("wanted")])))
    garbage_collection.freeze_existing_objects()
    steps = [*_timed(prepare_in_steps(PROFILE, pod, world, NOW))]
    times = []
    for _ in range(count + 1):
        began = time.process_time()
        rejection = feasible(PROFILE, PROFILE.view(pod, world, NOW))
        assert isinstance(rejection, Rejection)
        steps.append(time.process_time() - began)
        began = time.process_time()
        result = run_post_filter_plugins_by_tier(PROFILE, rejection, NOW)
        times.append(time.process_time() - began)
        assert result is not None and len(result.victims) == 2
    return count / sum(times[1:]), max(*steps, steps[-count - 1] + times[0])


def _timed(steps: Iterator[None]) -> Iterator[float]:
    """Yield the seconds of CPU time of each step."""
    while True:
        began = time.process_time()
        try:
            next(steps)
        except StopIteration:
            return
        finally:
            took = time.process_time() - began
        yield took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--count", type=int, default=20)
    args = parser.parse_args()
    for nodes in args.nodes:
        rate, longest = measure(nodes, args.count)
        print(f"{nodes:>6} nodes {rate:>8,.0f} preemptions/s, longest step {1000 * longest:.1f} ms",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
