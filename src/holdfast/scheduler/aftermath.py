"""What became of a pod whose binding failed. An answer may be lost although the write was not."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.capacity.reserve_pod import reserve_pod
from holdfast.client.client import Client
from holdfast.clock import Clock
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import HoldfastError, NotFound
from holdfast.framework.world import World

FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Where the pod is ("" for nowhere), and its newest version if it still wants a node."""

    node: str
    waiting: PodFacts | None = None


async def find_out(client: Client, clock: Clock, world: World, facts: PodFacts) -> Aftermath:
    """Ask the API server until it answers. Until then the room stays held: it may be taken."""
    wait = FIRST_WAIT
    while True:
        try:
            if facts.reserve_for:
                return await _of_reservation(client, world, facts)
            return await _of_pod(client, world, facts)
        except NotFound:
            return Aftermath("")
        except HoldfastError:
            await clock.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)


async def _of_pod(client: Client, world: World, facts: PodFacts) -> Aftermath:
    pod = await client.get(PODS, facts.name, facts.namespace)
    if pod.uid != facts.pod.uid:
        return Aftermath("")
    waits = not (pod.spec.node_name or pod.finished or pod.terminating)
    return Aftermath(pod.spec.node_name, world.facts(pod) if waits else None)


async def _of_reservation(client: Client, world: World, facts: PodFacts) -> Aftermath:
    found = await client.get(RESERVATIONS, facts.name)
    if found.uid != facts.reserve_for:
        return Aftermath("")
    node, gone = found.status.node_name, found.metadata.deletion_timestamp is not None
    if node or gone or found.phase != "Pending":
        return Aftermath(node)
    return Aftermath("", world.facts(reserve_pod(found), reserve_for=found.uid))
