"""Evaluators: for each resource, which keys and writes concern a quota, and what is charged.

And the reverse: which resources the keys of a quota are about.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Generic, TypeVar

from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.api.devices import ResourceClaim
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.api.resource_names import PODS
from holdfast.api.resource_quota import ResourceQuota, ScopeRequirement
from holdfast.api.storage import PersistentVolumeClaim
from holdfast.api.workloads import Service
from holdfast.runtime.feature_gates import Feature
from holdfast.state.quota import scopes
from holdfast.state.quota.amounts import (
    CLASSIC_CLAIMS,
    CPU_AND_MEMORY,
    ONE,
    PLAIN_COUNTS,
    POD_AMOUNTS,
    REQUESTS,
    SERVICES,
    STORAGE,
    VOLUME_CLAIMS,
    QuotaUsage,
    is_huge_pages_key,
)
from holdfast.state.quota.usage import (
    IMPLICIT_REQUESTS,
    PER_DEVICE_CLASS,
    PER_STORAGE_CLASS,
    Lookups,
    claim_usage,
    container_keys,
    count_key,
    pod_usage,
    service_usage,
    volume_claim_usage,
)

T = TypeVar("T", bound=Object)
PER_RESOURCE_CLASS = f".resourceclass.node.k8s.io/{CLASSIC_CLAIMS}"
IGNORED = frozenset({("", "events"), ("events.k8s.io", "events"), ("", "bindings")})
"""Resources that no quota counts."""


class Evaluator(Generic[T]):
    """The rules of one resource; this one counts objects."""

    subresources: tuple[str, ...] = ("",)
    """The subresources whose writes may grow usage; "" is the object itself."""
    charges_updates = False
    feature: Feature | None = None
    """The feature without which the resource is not counted."""

    def __init__(self, group: str, plural: str, type_: type[T]) -> None:
        self.group, self.plural, self.type = group, plural, type_
        self.count_key = count_key(group, plural)
        self._alias = plural if not group and plural in PLAIN_COUNTS else ""

    def tracks(self, key: str) -> bool:
        """Return whether objects of the resource are charged on a key."""
        return key == self.count_key or (bool(key) and key == self._alias)

    def handles(self, subresource: str, *, created: bool) -> bool:
        """Return whether such a write may grow the usage, whatever is written."""
        return subresource in self.subresources and (created or self.charges_updates)

    def may_grow(self, new: T, old: T) -> bool:
        """Return whether an update may grow the usage."""
        return True

    def in_scope(self, obj: T, requirement: ScopeRequirement) -> bool:
        """Return whether an object matches a scope."""
        return False

    def missing(self, obj: T, keys: Iterable[str]) -> str:
        """Return what an object must state to be charged on the keys, "" if nothing is missing."""
        return ""

    def usage(self, obj: T, lookups: Lookups) -> QuotaUsage:
        """Return what an object charges."""
        usage = {self.count_key: ONE}
        return usage | {self._alias: ONE} if self._alias else usage

    def matches(self, quota: ResourceQuota, obj: T) -> bool:
        """Return whether an object is in all scopes of a quota."""
        return all(self.in_scope(obj, requirement) for requirement in quota.requirements)


class PodEvaluator(Evaluator[Pod]):
    """Pods: compute resources, and extended resources by ``requests.``."""

    charges_updates = True

    def tracks(self, key: str) -> bool:
        """Return whether pods are charged on a key."""
        return key == self.count_key or is_pod_key(key)

    def may_grow(self, new: Pod, old: Pod) -> bool:
        """Return whether a pod moves to another scope by its deadline; nothing else changes."""
        return scopes.has_deadline(new) != scopes.has_deadline(old)

    def in_scope(self, obj: Pod, requirement: ScopeRequirement) -> bool:
        """Return whether a pod matches a scope."""
        return scopes.pod_in_scope(obj, requirement)

    def missing(self, obj: Pod, keys: Iterable[str]) -> str:
        """Return the cpu and memory that containers do not state, with the containers."""
        wanted = CPU_AND_MEMORY.intersection(keys)
        if not wanted or scopes.has_pod_level_resources(obj):
            return ""
        lacking: dict[str, set[str]] = {}
        for container in (*obj.spec.containers, *obj.spec.init_containers):
            stated = container_keys(container.resources.requests, container.resources.limits)
            for key in wanted - stated:
                lacking.setdefault(key, set()).add(container.name)
        parts = [f"{key} for: {','.join(sorted(lacking[key]))}" for key in sorted(lacking)]
        return f"must specify {'; '.join(parts)}" if parts else ""

    def usage(self, obj: Pod, lookups: Lookups) -> QuotaUsage:
        """Return what a pod charges."""
        return pod_usage(obj, lookups.now)


class ServiceEvaluator(Evaluator[Service]):
    """Services, node ports and load balancers."""

    charges_updates = True

    def tracks(self, key: str) -> bool:
        """Return whether services are charged on a key."""
        return key == self.count_key or key in SERVICES

    def usage(self, obj: Service, lookups: Lookups) -> QuotaUsage:
        """Return what a service charges."""
        return service_usage(obj)


class VolumeClaimEvaluator(Evaluator[PersistentVolumeClaim]):
    """Volume claims and their storage, in all and by storage class."""

    subresources = ("", "status")
    charges_updates = True

    def tracks(self, key: str) -> bool:
        """Return whether volume claims are charged on a key."""
        by_class = tuple(PER_STORAGE_CLASS + name for name in (VOLUME_CLAIMS, STORAGE))
        return key in (self.count_key, VOLUME_CLAIMS, STORAGE) or key.endswith(by_class)

    def in_scope(self, obj: PersistentVolumeClaim, requirement: ScopeRequirement) -> bool:
        """Return whether a volume claim matches a scope."""
        return scopes.volume_claim_in_scope(obj, requirement)

    def usage(self, obj: PersistentVolumeClaim, lookups: Lookups) -> QuotaUsage:
        """Return what a volume claim charges."""
        return volume_claim_usage(obj)


class ResourceClaimEvaluator(Evaluator[ResourceClaim]):
    """Resource claims: devices by class and by extended resource."""

    feature = Feature.DYNAMIC_RESOURCE_ALLOCATION
    charges_updates = True

    def tracks(self, key: str) -> bool:
        """Return whether resource claims are charged on a key."""
        by_class = key.endswith(PER_DEVICE_CLASS)
        return key == self.count_key or by_class or is_extended_key(key)

    def usage(self, obj: ResourceClaim, lookups: Lookups) -> QuotaUsage:
        """Return what a claim charges."""
        return claim_usage(obj, lookups)


class ClassicClaimEvaluator(Evaluator[ClassicClaim]):
    """Claims of classic DRA, in all and by resource class."""

    feature = Feature.DYNAMIC_RESOURCE_ALLOCATION

    def tracks(self, key: str) -> bool:
        """Return whether classic claims are charged on a key."""
        return key in (self.count_key, CLASSIC_CLAIMS) or key.endswith(PER_RESOURCE_CLASS)

    def usage(self, obj: ClassicClaim, lookups: Lookups) -> QuotaUsage:
        """Return what a claim charges, in all and for its class."""
        usage = {self.count_key: ONE, CLASSIC_CLAIMS: ONE}
        if name := obj.spec.resource_class_name:
            usage[name + PER_RESOURCE_CLASS] = ONE
        return usage


def is_pod_key(key: str) -> bool:
    """Return whether a key is one of the compute and extended resources of pods.

    >>> is_pod_key("limits.cpu"), is_pod_key("requests.example.com/gpu"), is_pod_key("services")
    (True, True, False)
    """
    is_amount = key in POD_AMOUNTS or is_huge_pages_key(key) or is_extended_key(key)
    return is_amount or key == PODS


def is_extended_key(key: str) -> bool:
    """Return whether a key is ``requests.`` and the name of an extended resource."""
    if key.startswith(IMPLICIT_REQUESTS):
        return True
    return key.startswith(REQUESTS) and "/" in key and "kubernetes.io/" not in key


@lru_cache(maxsize=1024)
def evaluator_of(group: str, plural: str) -> Evaluator[Any]:
    """Return the evaluator of a resource; any resource has an object count."""
    match group, plural:
        case "", "pods":
            return PodEvaluator(group, plural, Pod)
        case "", "services":
            return ServiceEvaluator(group, plural, Service)
        case "", "persistentvolumeclaims":
            return VolumeClaimEvaluator(group, plural, PersistentVolumeClaim)
        case "resource.k8s.io", "resourceclaims":
            return ResourceClaimEvaluator(group, plural, ResourceClaim)
        case "core.k8s.io", "resourceclaims":
            return ClassicClaimEvaluator(group, plural, ClassicClaim)
    return Evaluator(group, plural, Object)


GroupResource = tuple[str, str]
_SPECIAL: tuple[GroupResource, ...] = (
    ("", "pods"),
    ("", "services"),
    ("", "persistentvolumeclaims"),
    ("resource.k8s.io", "resourceclaims"),
    ("core.k8s.io", "resourceclaims"),
    *(("", plural) for plural in PLAIN_COUNTS),
)
"""The resources with keys other than an object count."""


def _counted_resource(key: str) -> GroupResource | None:
    """Return the resource of an object count, None for any other key.

    >>> _counted_resource("count/jobs.batch"), _counted_resource("cpu")
    (('batch', 'jobs'), None)
    """
    if not key.startswith("count/"):
        return None
    plural, _, group = key.removeprefix("count/").partition(".")
    return group, plural


def resources_of(keys: Iterable[str]) -> dict[GroupResource, None]:
    """Return the resources whose objects are charged on the keys, in a fixed order."""
    listed = list(keys)
    resources = dict.fromkeys(
        resource for resource in _SPECIAL if any(map(evaluator_of(*resource).tracks, listed))
    )
    return resources | dict.fromkeys(
        r for key in listed if (r := _counted_resource(key)) is not None
    )


def is_tracked(key: str) -> bool:
    """Return whether anything is charged on a key."""
    return bool(resources_of((key,)))
