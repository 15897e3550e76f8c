"""Helpers for tests of the store: keys, objects as bytes, events of a watch."""

import json

from holdfast.server.store import ObjectKey


def key(name, plural="pods", namespace="default", group=""):
    return ObjectKey(group, plural, namespace, name)


def build(name, namespace="default", labels=None, owners=(), node="", **more):
    """Return a function that builds the bytes of an object, as the API server does."""

    def made(revision):
        metadata = {
            "name": name, "namespace": namespace, "uid": f"uid-{name}",
            "resourceVersion": str(revision), "labels": labels or {},
            "ownerReferences": [{"uid": owner} for owner in owners],
        }  # fmt: skip
        return json.dumps({"metadata": metadata, "spec": {"nodeName": node}, **more}).encode()

    return made


async def drain(subscription, until):
    """Read the events of a subscription up to a revision."""
    events = []
    async for batch in subscription:
        events += batch
        if events[-1].revision >= until:
            return events
    raise AssertionError("the subscription ended early")


def as_tuples(events):
    """Return events as tuples that can be compared."""
    return [
        (e.revision, e.change.name, e.key.name, e.object.value, e.previous and e.previous.value)
        for e in events
    ]


def names(objects):
    return [stored.key.name for stored in objects]
