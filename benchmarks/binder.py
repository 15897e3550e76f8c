"""A binder that thinks nothing: the most a scheduler could write to this control plane.

    python benchmarks/binder.py --kubeconfig FILE [--events] [--concurrency 64]

Lists nodes and pods once, then puts pod after pod on node after node. With ``--events`` it writes
one event a pod besides, as every scheduler does. It looks at nothing and follows nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

from holdfast.api.scheme import EVENTS, NODES, PODS
from holdfast.api.timestamps import rfc3339
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--concurrency", type=int, default=64)
    args = parser.parse_args()
    client = Client(HttpTransport(await load(args.kubeconfig)), "binder")
    nodes = [node.name for node in (await client.list(NODES)).items]
    pods = (await client.list(PODS, "default")).items
    waiting = enumerate(pods)

    async def bind() -> None:
        for number, pod in waiting:
            node = nodes[number % len(nodes)]
            binding = {
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"namespace": "default", "name": pod.name, "uid": pod.uid},
                "target": {"kind": "Node", "name": node},
            }  # fmt: skip
            await client.bind("default", pod.name, binding)
            if args.events:
                await client.create(EVENTS, an_event(pod, node), "default")

    await asyncio.gather(*(bind() for _ in range(args.concurrency)))
    await client.close()


def an_event(pod: Any, node: str) -> dict[str, Any]:
    """What a scheduler tells about a pod it placed."""
    now = time.time()
    return {
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": f"{pod.name}.{int(now * 1e6):x}", "namespace": "default"},
        "involvedObject": {
            "kind": "Pod", "namespace": "default", "name": pod.name, "uid": pod.uid,
            "apiVersion": "v1", "resourceVersion": pod.metadata.resource_version,
        },
        "type": "Normal", "reason": "Scheduled", "action": "Binding",
        "message": f"Successfully assigned default/{pod.name} to {node}",
        "source": {"component": "binder"}, "reportingComponent": "binder",
        "reportingInstance": "binder", "firstTimestamp": rfc3339(now),
        "lastTimestamp": rfc3339(now), "count": 1,
    }  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main())
