"""``holdfast reservation list``: resources, owners and end of every reservation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.api import scheme
from holdfast.api.reservation import FINAL, PENDING, Reservation, ReservationOwner
from holdfast.api.reservation_names import OWNER_NAMESPACES
from holdfast.cli.connection import connect, list_objects
from holdfast.cli.table import format_duration, format_table, list_amounts, print_json
from holdfast.runtime.clock import SystemClock

HEAD = ("NAME", "PHASE", "NODE", "FOR", "HELD", "USED", "OWNERS", "ENDS")


def run(kubeconfig: Path | None, output: str) -> None:
    """Print all reservations."""
    reservations = asyncio.run(_read(kubeconfig))
    now = SystemClock().now()
    if output == "json":
        print_json([as_data(r, now) for r in reservations])
    elif not reservations:
        print(
            "there are no reservations; `holdfast reservation create --help` says how to make one"
        )
    else:
        print(as_text(reservations, now))


async def _read(kubeconfig: Path | None) -> list[Reservation]:
    async with connect(kubeconfig, "holdfast-reservation") as (client, _endpoint):
        return sorted(await list_objects(client, scheme.RESERVATIONS), key=lambda r: r.name)


def as_text(reservations: Iterable[Reservation], now: float) -> str:
    """Format a table of reservations, and below it their problems."""
    listed = list(reservations)
    amounts = list_amounts(
        [part for r in listed for part in (r.status.allocatable, r.status.allocated)]
    )
    rows = [
        (r.name, r.phase, r.status.node_name or "-", owners_of(r), held, used,
         str(len(r.status.current_owners)), ends(r, now))
        for r, held, used in zip(listed, amounts[::2], amounts[1::2], strict=True)
    ]  # fmt: skip
    troubles = [f"{r.name}: {words}" for r in listed if (words := trouble(r))]
    return "\n".join([format_table(HEAD, rows), *troubles])


def as_data(reservation: Reservation, now: float) -> dict[str, Any]:
    """Return one row of the table as JSON data."""
    end, status = reservation.ends_at, reservation.status
    return {
        "name": reservation.name, "phase": reservation.phase, "node": status.node_name or None,
        "for": owners_of(reservation), "held": status.allocatable, "used": status.allocated,
        "owners": [f"{o.namespace}/{o.name}" for o in status.current_owners],
        "endsInSeconds": None if end is None or reservation.phase in FINAL else int(end - now),
        "trouble": trouble(reservation) or None,
    }  # fmt: skip


def owners_of(reservation: Reservation) -> str:
    """Describe the owners in a few words."""
    owners = " or ".join(map(_owner, reservation.spec.owners)) or "no pod"
    namespaces = reservation.metadata.annotations.get(OWNER_NAMESPACES)
    return owners if namespaces is None else f"{owners} in namespaces {namespaces}"


def _owner(owner: ReservationOwner) -> str:
    parts = []
    if owner.object is not None:
        named = "/".join(filter(None, (owner.object.namespace, owner.object.name)))
        parts.append(f"pod {named}" if owner.object.name else f"namespace {named}" if named else "")
        parts.append(f"uid {owner.object.uid}" if owner.object.uid else "")
    if owner.controller is not None:
        made = owner.controller
        parts.append(f"{made.kind.lower() or 'controller'} {made.name or made.uid}")
    if owner.label_selector is not None:
        parts.append(_selector(owner))
    return " ".join(filter(None, parts)) or "any pod"


def _selector(owner: ReservationOwner) -> str:
    assert owner.label_selector is not None
    pairs = [f"{k}={v}" for k, v in sorted(owner.label_selector.match_labels.items())]
    for wish in owner.label_selector.match_expressions:
        values = f"({','.join(wish.values)})" if wish.values else ""
        pairs.append(f"{wish.key} {wish.operator}{values}")
    return ",".join(pairs) or "any pod"


def ends(reservation: Reservation, now: float) -> str:
    """Describe when it ends."""
    if reservation.phase in FINAL:
        return "ended"
    end = reservation.ends_at
    return "never" if end is None else f"in {format_duration(end - now)}"


def trouble(reservation: Reservation) -> str:
    """Return why it cannot be used, or ""."""
    if reservation.phase in FINAL:
        return ""
    scheduled, ready = reservation.condition("Scheduled"), reservation.condition("Ready")
    resized = reservation.condition("Resized")
    if reservation.phase == PENDING:
        if scheduled is not None and scheduled.message:
            return scheduled.message
        return "" if scheduled else "no scheduler has tried to place it yet"
    if ready is not None and ready.status == "False":
        return f"{ready.reason}: {ready.message}" if ready.message else ready.reason
    return resized.message if resized is not None and resized.status == "False" else ""
