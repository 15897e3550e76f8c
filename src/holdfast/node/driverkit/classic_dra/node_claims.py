"""Claims of classic DRA on a node: the content of their handles, and the claim of a shadow."""

from __future__ import annotations

import re
from typing import Any

from holdfast.api.classic_dra.shadows import ClassicReference
from holdfast.api.classic_dra.types import ClassicClaim, classic_resources
from holdfast.api.devices import ResourceClaim
from holdfast.client.classic_group import find_classic_group
from holdfast.client.client import Client
from holdfast.node.driverkit.claims import AllocatedDevice, Cdi, Claim, DriverError, Prepared
from holdfast.node.driverkit.classic_dra.handle import Handle, decode_handle
from holdfast.runtime.errors import NotFound


def classic_claim(namespace: str, name: str, uid: str, handle: str, data_type: Any) -> Claim:
    """Return a claim with the devices of its handle; a handle that the author wrote stays text."""
    decoded_handle = decode_handle(handle, data_type)
    if decoded_handle is None:
        return Claim(namespace, name, uid, (), handle)
    whole = (AllocatedDevice(device, decoded_handle.node, "") for device in decoded_handle.devices)
    shares = (
        AllocatedDevice(one.device, decoded_handle.node, "", consumed_capacity=one.capacity)
        for one in decoded_handle.shares
    )
    return Claim(namespace, name, uid, (*whole, *shares), decoded_handle)


def has_nothing(claim: Claim) -> bool:
    """Return whether an optional claim got nothing: the author's functions are not called."""
    return isinstance(claim.handle, Handle) and claim.handle.granted == 0


def add_granted(driver: str, claim: Claim, prepared: Prepared) -> Prepared:
    """Add the variable that tells containers what an optional claim got."""
    if not isinstance(claim.handle, Handle) or claim.handle.granted is None:
        return prepared
    variable = Cdi().env(**{granted_variable(driver): claim.handle.granted})
    if prepared is None or isinstance(prepared, Cdi):
        return (prepared or Cdi()) + variable
    if isinstance(prepared, list | tuple) and prepared:
        return [prepared[0] + variable, *prepared[1:]]
    return prepared


def granted_variable(driver: str) -> str:
    """Return the name of the variable.

    >>> granted_variable("gpu.example.com")
    'GPU_EXAMPLE_COM_GRANTED'
    """
    return re.sub(r"[^A-Z0-9]", "_", driver.upper()) + "_GRANTED"


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
