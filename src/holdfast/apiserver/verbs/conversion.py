"""One stored object, several versions of it to see and to write.

Versions of equal shape differ in ``apiVersion`` alone; others have a ``Conversion``.
"""

from __future__ import annotations

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.apiserver.descriptor import KindDescriptor


def to_requested_version(descriptor: KindDescriptor, value: bytes) -> bytes:
    """Show stored bytes under the version that was asked for."""
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
    """Copy a stored object as the version that was asked for shows it."""
    shown = obj if descriptor.conversion is None else descriptor.conversion.from_stored(obj)
    return {**shown, "apiVersion": descriptor.resource.api_version}


def to_storage_version(descriptor: KindDescriptor, obj: JsonObject) -> JsonObject:
    """Turn what a client wrote into what is stored."""
    if descriptor.conversion is None:
        return obj
    return {**descriptor.conversion.to_stored(obj), "apiVersion": descriptor.storage_api_version}
