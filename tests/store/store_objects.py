"""Keys, objects as bytes, and reading watches, for the tests of the store."""

import json

from holdfast.store import ObjectKey


def key(name, plural="pods", namespace="default", group=""):
    return ObjectKey(group, plural, namespace, name)


def build(name, namespace="default", labels=None, owners=(), node="", **more):
    """Make the function that makes the bytes, as the API server would."""

    def made(revision):
        metadata = {
            "name": name, "namespace": namespace, "uid": f"uid-{name}",
            "resourceVersion": str(revision), "labels": labels or {},
            "ownerReferences": [{"uid": owner} for owner in owners],
        }  # fmt: skip
        return json.dumps({"metadata": metadata, "spec": {"nodeName": node}, **more}).encode()

    return made


async def drain(subscription, until):
    """Read events up to the one of a revision."""
    events = []
    async for batch in subscription:
        events += batch
        if events[-1].revision >= until:
            return events
    raise AssertionError("the subscription ended early")


def told(events):
    """What a watcher is told, as comparable values."""
    return [
        (e.revision, e.change.name, e.key.name, e.object.value, e.previous and e.previous.value)
        for e in events
    ]


def names(objects):
    return [stored.key.name for stored in objects]
