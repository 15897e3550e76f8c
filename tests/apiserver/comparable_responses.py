"""Responses of two API servers without what differs between any two clusters."""

import re

import msgspec

# Fields that differ between clusters, and the service account plugin, which is disabled here.
UNSHARED = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp",
            "lastTransitionTime", "serviceAccount", "serviceAccountName"}  # fmt: skip
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
VERSION = re.compile(r"ResourceVersion in record \(\d+\)")


def shared(value):
    """Return a value without fields that differ between clusters and without empty values."""
    if isinstance(value, dict):
        kept = {k: shared(v) for k, v in value.items() if k not in UNSHARED}
        return {k: v for k, v in kept.items() if v not in ({}, [])}
    if isinstance(value, list):
        return [shared(v) for v in value]
    if isinstance(value, str):
        return VERSION.sub("(RV)", UID.sub("UID", value))
    return value


async def ask(session, url, step):
    method, path, body, headers, query = step[:5]
    data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
    sent = {"content-type": "application/json"} if data is not None else {}
    async with session.request(
        method, url + path, data=data, headers=sent | headers, params=query
    ) as response:
        text = await response.read()
    try:
        return response.status, shared(msgspec.json.decode(text))
    except msgspec.DecodeError:
        return response.status, text
