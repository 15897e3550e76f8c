"""Bind pods without any decision: measures the most that a scheduler could write.

    python benchmarks/binder.py --kubeconfig FILE [--events] [--watch] [--devices CASE]

Lists nodes and pods once and encodes every request, then binds pod after pod to node after node.
With ``--events`` it also writes one event for each pod, as every scheduler does. With ``--watch``
it also reads a watch of all pods, as every scheduler must. With ``--devices`` it also sends the
requests that pods with claims or extended resources need, and watches claims. It decodes no
response.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from pathlib import Path
from typing import Any

import msgspec

from holdfast.api.meta import ObjectReference
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.api.scheme import EVENTS, NODES, PODS, RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.client.event_body import event_body, event_name, with_count
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.client.transport import Request
from real_devices import DEVICE_CASES, writes

NAME = "binder"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--devices", choices=DEVICE_CASES)
    parser.add_argument("--concurrency", type=int, default=64)
    args = parser.parse_args()
    client = Client(HttpTransport(await load(args.kubeconfig)), NAME)
    nodes = [node.name for node in (await client.list(NODES)).items]
    listed = await client.list(PODS, "default")
    pods = listed.items
    requests = [
        (
            writes(args.devices, pod, node, number) if args.devices else [],
            PODS.path("default", pod.name, "binding"),
            binding(pod, node),
            event(pod, node, number),
        )
        for number, pod in enumerate(pods)
        for node in [nodes[number % len(nodes)]]
    ]
    waiting, events = iter(requests), EVENTS.path("default")
    gc.freeze()
    gc.disable()

    async def bind() -> None:
        for before, path, body, written_event in waiting:
            for request in before:
                await client.write(*request)
            await client.write("POST", path, body)
            if args.events:
                await client.write("POST", events, written_event)

    watched = [PODS, *([RESOURCE_CLAIMS] if args.devices else [])] if args.watch else []
    version = listed.resource_version
    watching = [asyncio.create_task(watch(client, each, version)) for each in watched]
    await asyncio.gather(*(bind() for _ in range(args.concurrency)))
    for task in watching:
        task.cancel()
    await client.close()


async def watch(client: Client, resource: Resource[Any], revision: str) -> None:
    """Read the watch of all objects of a resource without decoding it."""
    query = {"watch": "true", "resourceVersion": revision}
    async with client.transport.stream(Request("GET", resource.path(""), query)) as lines:
        async for _line in lines:
            pass


def binding(pod: Pod, node: str) -> bytes:
    """Return the Binding of a pod to a node."""
    return msgspec.json.encode({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": "default", "name": pod.name, "uid": pod.uid},
        "target": {"kind": "Node", "name": node},
    })  # fmt: skip


def event(pod: Pod, node: str, number: int) -> bytes:
    """Return the event that a scheduler writes for a scheduled pod."""
    now = time.time()
    about = ObjectReference(
        api_version="v1", kind="Pod", namespace="default", name=pod.name, uid=pod.uid,
        resource_version=pod.metadata.resource_version,
    )  # fmt: skip
    what = {
        "type": "Normal", "reason": "Scheduled", "action": "Binding",
        "message": f"Successfully assigned default/{pod.name} to {node}",
    }  # fmt: skip
    name = event_name(about, NAME, now, number)
    return with_count(event_body(name, about, what, source=NAME, instance=NAME, now=now), 1, now)


if __name__ == "__main__":
    asyncio.run(main())
