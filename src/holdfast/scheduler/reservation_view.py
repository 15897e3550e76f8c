"""A node's reservations as the scheduler's ledger has them, for whoever must find out why."""

from __future__ import annotations

from typing import Any

from holdfast.columns.interner import CPU
from holdfast.framework.world import World


def node_reservations(world: World, node: str) -> list[dict[str, Any]] | None:
    """List what is held on a node and who draws on it, in base units; None: no such node."""
    row = world.nodes.row_of.get(node)
    if row is None:
        return None
    offers = sorted(world.offers.on_row(row), key=lambda offer: offer.reservation.name)
    return [
        {
            "name": offer.reservation.name,
            "uid": offer.uid,
            "phase": offer.reservation.phase,
            "allocatePolicy": offer.policy,
            "allocateOnce": offer.reservation.spec.allocate_once,
            "available": offer.matchable,
            "order": offer.order,
            "resources": {
                _unit(world, resource): {
                    "reserved": amount,
                    "used": offer.used(resource),
                    "left": offer.left(resource),
                }
                for resource, amount in offer.reserved.items()
            },
            "pods": {uid: _named(world, draws) for uid, draws in offer.draws.items()},
        }
        for offer in offers
    ]


def _named(world: World, amounts: Any) -> dict[str, int]:
    return {_unit(world, resource): amount for resource, amount in amounts.items()}


def _unit(world: World, resource: int) -> str:
    return "millicores" if resource == CPU else world.nodes.resources[resource]
