"""Random objects of classic DRA; there are few names, so that pods share claims."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from holdfast.api.decode import JsonObject
from holdfast.api.meta import Object
from holdfast.testing.builders import typed
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    a_pod_scheduling,
    an_allocation,
    named,
    on_nodes,
)

_CLAIMS = ("c1", "c2", "c3", "c4")
_CLASSES = ("gpu", "nic")


def some_classic_entries(random: Random) -> list[JsonObject]:
    """Return entries of a pod that name one or two claims."""
    return [named(claim) for claim in random.sample(_CLAIMS, random.randint(1, 2))]


def some_classic_object(
    random: Random, nodes: Sequence[str], pods: Sequence[JsonObject], version: int
) -> Object:
    """Return a class, a claim in any state, or the negotiation of one of these pods."""
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
