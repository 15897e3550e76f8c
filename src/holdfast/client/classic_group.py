"""Find the group in which an API server serves classic DRA."""

from __future__ import annotations

import msgspec

from holdfast.api.classic_dra.names import KEP_GROUP, OWN_GROUP, VERSION
from holdfast.api.classic_dra.types import classic_resources
from holdfast.client.client import Client


class _Named(msgspec.Struct):
    name: str = ""


class _Groups(msgspec.Struct):
    groups: list[_Named] = []


class _Resources(msgspec.Struct):
    resources: list[_Named] = []


async def find_classic_group(client: Client) -> str:
    """Return the KEP's group, else that of the CRDs if claims are served there; "" if neither."""
    listed = msgspec.json.decode(await client.raw("/apis"), type=_Groups)
    groups = {group.name for group in listed.groups}
    if KEP_GROUP in groups:
        return KEP_GROUP
    if OWN_GROUP not in groups:
        return ""
    # The inventories of drivers are in this group too, so it may be served without claims.
    path = f"/apis/{OWN_GROUP}/{VERSION}"
    discovery = msgspec.json.decode(await client.raw(path), type=_Resources)
    claims = classic_resources(OWN_GROUP).claims.plural
    return OWN_GROUP if any(each.name == claims for each in discovery.resources) else ""
