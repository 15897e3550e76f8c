"""Shadows on a node: structured claims that stand for classic ones of a real cluster."""

from __future__ import annotations

from holdfast.api.classic import ClassicClaim, classic_resources
from holdfast.api.classic_shadows import ClassicReference
from holdfast.api.devices import ResourceClaim
from holdfast.client.classic_group import find_classic_group
from holdfast.client.client import Client
from holdfast.driverkit.claims import DriverError
from holdfast.errors import NotFound


async def read_classic_claim(
    client: Client, shadow: ResourceClaim, reference: ClassicReference, driver: str
) -> ClassicClaim:
    """Return the classic claim of a shadow, if the pod of the shadow may use it.

    Raises DriverError otherwise.
    """
    group = await find_classic_group(client)
    if not group:
        raise DriverError("the API server does not serve the kinds of classic DRA")
    named = f"classic ResourceClaim {shadow.namespace}/{reference.name}"
    try:
        claim = await client.get(classic_resources(group).claims, reference.name, shadow.namespace)
    except NotFound as error:
        raise DriverError(f"{named} of ResourceClaim {shadow.name} does not exist") from error
    if claim.uid != reference.uid:
        raise DriverError(f"{named} has uid {claim.uid}, not {reference.uid}")
    if not claim.is_allocated or claim.status.driver_name != driver:
        raise DriverError(f"{named} is not allocated by {driver}")
    consumers = shadow.status.reserved_for
    if not consumers or not all(claim.is_reserved_for(consumer.uid) for consumer in consumers):
        raise DriverError(f"{named} is not reserved for the pod of ResourceClaim {shadow.name}")
    return claim
