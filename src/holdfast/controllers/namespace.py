"""The namespace controller: delete the contents of terminating namespaces and finalize them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.api.scheme import NAMESPACES
from holdfast.api.timestamps import rfc3339
from holdfast.api.workloads import Namespace
from holdfast.client.client import PatchType
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers import conditions
from holdfast.controllers.discovery import ServedResources, discover
from holdfast.controllers.planned_writes import Patch, execute_write
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import NotAllowed, NotFound

FINALIZER = "kubernetes"
REQUEUE_SECONDS = 1.0
_RAW = Resource(
    "", "v1", "namespaces", "Namespace", dict, namespaced=False, subresources=("finalize",)
)


@dataclass(frozen=True, slots=True)
class RemainingObjects:
    """The remaining objects of one resource in a namespace."""

    resource: Resource[Object]
    objects: tuple[Object, ...]

    @property
    def label(self) -> str:
        """``pods.`` or ``deployments.apps``, as in upstream's condition."""
        return f"{self.resource.plural}.{self.resource.group}"


def deletable_in_namespace(served: ServedResources) -> ServedResources:
    """Return the resources whose objects are deleted with their namespace.

    ``events.k8s.io`` is omitted: its objects are also those of the core group.
    """
    return tuple(
        r for r in served
        if r.namespaced and {"list", "delete"} <= set(r.verbs) and r.group != "events.k8s.io"
    )  # fmt: skip


def plan_conditions(
    namespace: Namespace, leftovers: Sequence[RemainingObjects], now: float
) -> Patch | None:
    """Return a patch of the conditions for the remaining objects, or None if nothing changes."""
    before = conditions.to_raw(namespace.status.conditions)
    condition_values = [dict(c) for c in before]
    for type_, status, reason, message in _condition_values(leftovers):
        new = {"type": type_, "status": status, "reason": reason, "message": message}
        conditions.set_condition(condition_values, new, rfc3339(now))
    if condition_values == before:
        return None
    return Patch(
        NAMESPACES,
        namespace.name,
        {"status": {"conditions": condition_values}},
        "",
        "status",
        PatchType.MERGE,
    )


def _condition_values(leftovers: Sequence[RemainingObjects]) -> list[tuple[str, str, str, str]]:
    condition_values = [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered",
         "All resources successfully discovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions",
         "All legacy kube types successfully parsed"),
        ("NamespaceDeletionContentFailure", "False", "ContentDeleted",
         "All content successfully deleted, may be waiting on finalization"),
    ]  # fmt: skip
    counts = {each.label: len(each.objects) for each in leftovers}
    finalizers = Counter(
        f for each in leftovers for obj in each.objects for f in obj.metadata.finalizers
    )
    remaining = ", ".join(f"{n} has {c} resource instances" for n, c in sorted(counts.items()))
    held = ", ".join(f"{f} in {c} resource instances" for f, c in sorted(finalizers.items()))
    condition_values.append(
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain",
         f"Some resources are remaining: {remaining}")
        if counts
        else ("NamespaceContentRemaining", "False", "ContentRemoved",
              "All content successfully removed")
    )  # fmt: skip
    condition_values.append(
        ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain",
         f"Some content in the namespace has finalizers remaining: {held}")
        if finalizers
        else ("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers",
              "All content-preserving finalizers finished")
    )  # fmt: skip
    return condition_values


def without_finalizer(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a raw namespace without the finalizer of this controller."""
    kept = [f for f in (raw.get("spec") or {}).get("finalizers", ()) if f != FINALIZER]
    return {**raw, "spec": {**(raw.get("spec") or {}), "finalizers": kept}}


class NamespaceController(Reconciler):
    """Watch namespaces and delete the contents of those that are terminating."""

    name = "namespace-controller"
    required_resources = (NAMESPACES,)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = context.informers.get(NAMESPACES)
        self._namespaces.add_handler(self._on_namespace)

    def _on_namespace(self, kind: ChangeType, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None and new.metadata.deletion_timestamp is not None:
            self.queue.add(new.key)

    async def reconcile(self, key: str) -> None:
        """Delete the contents of one namespace; finalize it when it is empty."""
        namespace = self._namespaces.cache.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return
        if FINALIZER not in namespace.spec.finalizers:
            return
        left = await self._delete_contents(key, deletable_in_namespace(await discover(self.client)))
        if not left:
            await self._finalize(key)
            return
        patch = plan_conditions(namespace, left, self.clock.now())
        try:
            if patch is not None:
                await execute_write(self.client, patch)
        except NotFound:
            return
        self.queue.add_after(key, REQUEUE_SECONDS)

    async def _delete_contents(
        self, name: str, resources: ServedResources
    ) -> list[RemainingObjects]:
        """Delete all objects and return those that still exist."""
        left = []
        for resource in resources:
            try:
                if not (await self.client.list(resource, name, limit=1)).items:
                    continue
                await self._delete_all(resource, name)
                objects = (await self.client.list(resource, name)).items
            except NotFound:
                continue  # a custom resource that was removed since
            if objects:
                left.append(RemainingObjects(resource, objects))
        return left

    async def _delete_all(self, resource: Resource[Object], namespace: str) -> None:
        if "deletecollection" in resource.verbs:
            try:
                await self.client.delete(resource, "", namespace, propagation="Background")
                return
            except NotAllowed:
                pass
        for obj in (await self.client.list(resource, namespace)).items:
            if obj.metadata.deletion_timestamp is None:
                await self.client.delete(resource, obj.name, namespace, propagation="Background")

    async def _finalize(self, name: str) -> None:
        try:
            raw = await self.client.get(_RAW, name)
            await self.client.update(_RAW, without_finalizer(raw), subresource="finalize")
        except NotFound:
            pass
