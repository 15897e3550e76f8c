"""Convert objects between the storage version and the version of a request.

Versions with equal schemas differ in ``apiVersion`` only; others have a ``Conversion``.
"""

from __future__ import annotations

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.server.descriptor import KindDescriptor


def to_requested_version(descriptor: KindDescriptor, value: bytes) -> bytes:
    """Convert stored bytes to the version of the request."""
    wanted = descriptor.resource.api_version
    if descriptor.storage_api_version == wanted:
        return value
    if descriptor.conversion is not None:
        return msgspec.json.encode(
            object_to_requested_version(descriptor, msgspec.json.decode(value))
        )
    old, new = f'"apiVersion":"{descriptor.storage_api_version}"', f'"apiVersion":"{wanted}"'
    return value.replace(old.encode(), new.encode(), 1)


def object_to_requested_version(descriptor: KindDescriptor, obj: JsonObject) -> JsonObject:
    """Return a copy of a stored object in the version of the request."""
    shown = obj if descriptor.conversion is None else descriptor.conversion.from_stored(obj)
    return {**shown, "apiVersion": descriptor.resource.api_version}


def to_storage_version(descriptor: KindDescriptor, obj: JsonObject) -> JsonObject:
    """Convert an object of a client to the storage version."""
    if descriptor.conversion is None:
        return obj
    return {**descriptor.conversion.to_stored(obj), "apiVersion": descriptor.storage_api_version}
