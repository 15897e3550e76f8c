"""Claims of classic DRA on a node: what their handles say."""

from __future__ import annotations

import re
from typing import Any

from holdfast.driverkit.cdi_edits import Cdi
from holdfast.driverkit.claims import AllocatedDevice, Claim, Prepared
from holdfast.driverkit.classic.handle import Handle, decode_handle


def classic_claim(namespace: str, name: str, uid: str, handle: str, data_type: Any) -> Claim:
    """Return a claim with the devices of its handle; a handle of the author's own stays text."""
    found = decode_handle(handle, data_type)
    if found is None:
        return Claim(namespace, name, uid, (), handle)
    whole = (AllocatedDevice(device, found.node, "") for device in found.devices)
    shares = (
        AllocatedDevice(one.device, found.node, "", consumed_capacity=one.capacity)
        for one in found.shares
    )
    return Claim(namespace, name, uid, (*whole, *shares), found)


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
