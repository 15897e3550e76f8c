"""Random objects of classic DRA with few names, so that pods share claims."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.testing.builders import typed
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    a_pod_scheduling,
    an_allocation,
    named,
    on_nodes,
)
from holdfast.testing.random_cluster import RandomCluster

_CLAIMS = ("c1", "c2", "c3", "c4")
_CLASSES = ("gpu", "nic")


def some_classic_entries(random: Random) -> list[JsonObject]:
    """Return entries of a pod that name one or two claims."""
    return [named(claim) for claim in random.sample(_CLAIMS, random.randint(1, 2))]


def some_classic_object(
    random: Random, nodes: Sequence[str], pods: Sequence[JsonObject], version: int
) -> Object:
    """Return a class, a claim in any state, or the PodScheduling of one of these pods."""
    pick, chance = random.choice, random.random
    some = random.sample(nodes, min(len(nodes), random.randint(1, 3)))
    what = chance()
    if what < 0.15:
        raw = a_classic_class(pick(_CLASSES), suitable=pick([None, on_nodes(*some)]))
    elif what < 0.4 and pods:
        pod = pick(pods)
        entries = {entry["name"]: some for entry in pod["spec"]["resourceClaims"]}
        raw = a_pod_scheduling(pod, selected=pick(["", *some]), potential=some, **entries)
    else:
        consumers = [pick(pods)] if pods and chance() < 0.5 else []
        status = an_allocation(*pick([(), some]), shared=chance() < 0.3, consumers=consumers)
        if not consumers and chance() < 0.1:
            status["deallocationRequested"] = True
        raw = a_classic_claim(
            pick(_CLAIMS),
            of_class=pick(_CLASSES),
            immediate=chance() < 0.1,
            status=status if chance() < 0.5 else None,
        )
    made: Object = typed(raw, resource_version=str(version))
    return made


def a_pod_with_classic_claims(cluster: RandomCluster) -> Pod:
    """Return a random pod that names classic claims; from now on events concern them, too."""
    raw = cluster.a_raw_pod()
    raw["metadata"]["namespace"] = "default"
    raw["spec"]["resourceClaims"] = some_classic_entries(cluster.random)
    events = next((each for each in cluster.more_events if isinstance(each, ClassicEvents)), None)
    if events is None:
        events = ClassicEvents()
        cluster.more_events.append(events)
    events.pods.append(raw)
    made: Pod = typed(raw)
    return made


class ClassicEvents:
    """Random events of a cluster that has pods with classic claims."""

    def __init__(self) -> None:
        self.pods: list[JsonObject] = []

    def __call__(self, cluster: RandomCluster) -> None:
        """Add, change or remove a class, a claim or a negotiation of classic DRA."""
        random, known_objects = cluster.random, cluster.classic
        if known_objects and random.random() < 0.2:
            cluster.world.delete(known_objects.pop(random.choice(sorted(known_objects))))
            return
        number = cluster.next_number()
        made: Any = some_classic_object(random, [*cluster.nodes, "unknown"], self.pods, number)
        # A deleted object does not come back: a new one has another uid.
        meta = msgspec.structs.replace(made.metadata, uid=f"{made.uid}-{number}")
        known = known_objects.get((made.kind, made.key))
        if known is not None:
            meta = msgspec.structs.replace(meta, uid=known.uid)
        made = msgspec.structs.replace(made, metadata=meta)
        known_objects[made.kind, made.key] = made
        cluster.world.upsert(made)
