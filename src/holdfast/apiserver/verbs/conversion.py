"""One stored object, several versions of it to see and to write.

Versions of equal shape differ in ``apiVersion`` alone; others have a ``Conversion``.
"""

from __future__ import annotations

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.apiserver.descriptor import Served


def outward(served: Served, value: bytes) -> bytes:
    """Show stored bytes under the version that was asked for."""
    wanted = served.resource.api_version
    if served.stored_as == wanted:
        return value
    if served.conversion is not None:
        return msgspec.json.encode(outward_object(served, msgspec.json.decode(value)))
    old, new = f'"apiVersion":"{served.stored_as}"', f'"apiVersion":"{wanted}"'
    return value.replace(old.encode(), new.encode(), 1)


def outward_object(served: Served, obj: JsonObject) -> JsonObject:
    """Copy a stored object as the version that was asked for shows it."""
    shown = obj if served.conversion is None else served.conversion.from_stored(obj)
    return {**shown, "apiVersion": served.resource.api_version}


def inward(served: Served, obj: JsonObject) -> JsonObject:
    """Turn what a client wrote into what is stored."""
    if served.conversion is None:
        return obj
    return {**served.conversion.to_stored(obj), "apiVersion": served.stored_as}
