"""Find the group in which an API server serves classic DRA."""

from __future__ import annotations

import msgspec

from holdfast.api.classic_names import OWN_GROUP, SEED_GROUP
from holdfast.client.client import Client


class _Group(msgspec.Struct):
    name: str = ""


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


async def find_classic_group(client: Client) -> str:
    """Return the KEP's group, else that of the CRDs, as ``/apis`` lists them; "" if neither."""
    listed = msgspec.json.decode(await client.raw("/apis"), type=_Groups)
    served = {group.name for group in listed.groups}
    return next((name for name in (SEED_GROUP, OWN_GROUP) if name in served), "")
