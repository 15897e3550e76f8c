"""``holdfast reservation create``: hold room for replicas that do not exist yet."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml
from rich.console import Console

from holdfast.api import scheme
from holdfast.api.reservation import PENDING, Reservation
from holdfast.cli.connection import connect
from holdfast.cli.reservation.making import ReservationFlags, reservation_for, workload
from holdfast.client.client import Client
from holdfast.clock import Clock, SystemClock
from holdfast.errors import NotFound, Refused
from holdfast.validation.reservation_advice import advise

LOOK_SECONDS = 0.3


def run(
    target: str, namespace: str, replicas: int, wish: ReservationFlags, *,
    patience: float, dry_run: bool, kubeconfig: Path | None,
) -> int:  # fmt: skip
    """Create the reservations and wait for their nodes; 1 if some found none in time."""
    return asyncio.run(_run(target, namespace, replicas, wish, patience, dry_run, kubeconfig))


async def _run(
    target: str, namespace: str, replicas: int, wish: ReservationFlags, patience: float,
    dry_run: bool, kubeconfig: Path | None,
) -> int:  # fmt: skip
    async with connect(kubeconfig, "holdfast-reservation") as (client, _endpoint):
        body = reservation_for(await read_workload(client, target, namespace), wish)
        if dry_run:
            print(yaml.safe_dump(body, sort_keys=False), end="")
            return 0
        made = await create(client, body, replicas)
        for reservation in made:
            print(f"reservation {reservation.name} created", flush=True)
        for words in advise(made[0]):
            print(f"warning: {words}", file=sys.stderr, flush=True)
        with Console(stderr=True, highlight=False).status("looking for nodes") as line:
            found = await placed(client, SystemClock(), made, patience, line.update)
    for reservation in found:
        print(standing(reservation))
    waiting = sum(reservation.phase == PENDING for reservation in found)
    if waiting and patience:
        print(f"{waiting} of {len(found)} have no node yet; `holdfast reservation why NAME` says "
              "more, and they are tried again when room comes free", file=sys.stderr)  # fmt: skip
    return 1 if waiting and patience else 0


async def read_workload(client: Client, target: str, namespace: str) -> dict[str, Any]:
    """Read ``deployment/web`` whole."""
    resource, name = workload(target)
    try:
        text = await client.raw(resource.path(namespace, name))
    except NotFound as missing:
        raise Refused(
            f'there is no {resource.kind} "{name}" in namespace "{namespace}": '
            f"`kubectl get {resource.plural} -A` lists them; -n names the namespace"
        ) from missing
    raw: dict[str, Any] = msgspec.json.decode(text)
    return {"kind": resource.kind, **raw}


async def create(client: Client, body: dict[str, Any], replicas: int) -> list[Reservation]:
    """Create as many reservations, each under a name the server makes."""
    try:
        return [await client.create(scheme.RESERVATIONS, body) for _ in range(replicas)]
    except NotFound as missing:
        raise Refused(
            "this cluster knows no reservations: install them with `kubectl apply -f deploy/crds`"
        ) from missing


async def placed(
    client: Client,
    clock: Clock,
    made: list[Reservation],
    patience: float,
    tell: Callable[[str], None],
) -> list[Reservation]:
    """Wait until all have left Pending, or patience ends; answers them as they are then."""
    end = clock.monotonic() + patience
    while True:
        found = [await client.get(scheme.RESERVATIONS, r.name) for r in made]
        waiting = sum(r.phase == PENDING for r in found)
        if not waiting or clock.monotonic() >= end:
            return found
        tell(f"looking for nodes: {len(found) - waiting} of {len(found)}")
        await clock.sleep(LOOK_SECONDS)


def standing(reservation: Reservation) -> str:
    """Say in one line where a reservation stands."""
    if reservation.status.node_name:
        return f"{reservation.name}: {reservation.phase} on {reservation.status.node_name}"
    condition = reservation.condition("Scheduled")
    why = f": {condition.message}" if condition is not None and condition.message else ""
    return f"{reservation.name}: {reservation.phase}{why}"
