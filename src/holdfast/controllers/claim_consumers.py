"""The consumers in ``status.reservedFor`` of a claim, for structured and classic DRA."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from holdfast.api.devices import ClaimConsumer
from holdfast.api.meta import Object, version_guard
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.controllers.planned_writes import Patch


def is_done(pod: Pod) -> bool:
    """Return whether a pod will not use its claims any more."""
    return pod.finished or (pod.terminating and not pod.spec.node_name)


def is_stale(consumer: ClaimConsumer, obj: Object | None) -> bool:
    """Return whether a consumer does not exist, was replaced, or is a pod that is done.

    ``obj`` is the object with the consumer's name, None if the server has none.
    """
    if obj is None or obj.uid != consumer.uid:
        return True
    return isinstance(obj, Pod) and is_done(obj)


def raw_consumers(consumers: Iterable[ClaimConsumer]) -> list[dict[str, str]]:
    """Return consumers in raw form."""
    return [
        {k: v for k, v in (("apiGroup", c.api_group), ("resource", c.resource), ("name", c.name),
                           ("uid", c.uid)) if v}
        for c in consumers
    ]  # fmt: skip


def reserved_for_patch(
    resource: Resource[Any], claim: Object, entries: list[dict[str, str]], **more: Any
) -> Patch:
    """Return a patch that replaces the consumers of a claim of this resource version."""
    guard = version_guard(claim)
    status = {"reservedFor": entries or None, **more}
    patch = {"metadata": guard, "status": status}
    return Patch(resource, claim.name, patch, claim.namespace, "status")


class DeletedUids:
    """The uids of deleted objects; the oldest are forgotten."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        """Remember the uid of an object that was deleted."""
        self._uids[uid] = None
        if len(self._uids) > self._limit:
            self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids
