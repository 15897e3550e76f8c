"""Compute what pods, services, volume claims and resource claims charge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from holdfast.api.devices import EXTENDED_CLAIM, ResourceClaim, devices_of_request
from holdfast.api.meta import OwnerReference, controller_of
from holdfast.api.pod import Pod, ResourceAmounts, ResourceRequirements
from holdfast.api.quantity import DECIMAL_SI, NANO, Quantity
from holdfast.api.requests import limit_nanos, request_nanos
from holdfast.api.resource_names import (
    CPU,
    DEVICE_CLASS_PREFIX,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
    PODS,
    is_extended,
)
from holdfast.api.storage import PersistentVolumeClaim
from holdfast.api.timestamps import parse_rfc3339
from holdfast.api.workloads import Service
from holdfast.state.device_share.requests import percent_of_gpus
from holdfast.state.quota.amounts import (
    LIMITS,
    ONE,
    REQUESTS,
    STORAGE,
    VOLUME_CLAIMS,
    QuotaUsage,
    add_usage,
    growth,
    parse,
)

IMPLICIT_REQUESTS = REQUESTS + DEVICE_CLASS_PREFIX
PER_DEVICE_CLASS = ".deviceclass.resource.k8s.io/devices"
PER_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
_COMPUTE = (CPU, MEMORY, EPHEMERAL_STORAGE)


class Lookups(Protocol):
    """The inputs of an object's usage other than the object."""

    @property
    def now(self) -> float:
        """The time, in seconds since 1970."""
        ...

    @property
    def extended_resources(self) -> bool:
        """Whether claims charge the keys of extended resources: the gate DRAExtendedResource."""
        ...

    def extended_name_of(self, device_class: str) -> str:
        """Return the explicit extended resource name of a device class, or ""."""
        ...

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, or None."""
        ...

    def claims_owned_by(self, namespace: str, uid: str) -> Iterable[ResourceClaim]:
        """Return the resource claims with this uid among their owners."""
        ...


def count_key(group: str, plural: str) -> str:
    """Return the key of an object count.

    >>> count_key("", "pods"), count_key("apps", "deployments")
    ('count/pods', 'count/deployments.apps')
    """
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def is_charged(pod: Pod, now: float) -> bool:
    """Return whether a pod still uses resources: it has not finished, nor should it be gone."""
    if pod.finished:
        return False
    deleted_at = pod.metadata.deletion_timestamp
    grace = pod.metadata.deletion_grace_period_seconds
    if deleted_at is None or grace is None:
        return True
    return now <= parse_rfc3339(deleted_at) + grace


def pod_usage(pod: Pod, now: float) -> QuotaUsage:
    """Return what a pod charges; a finished pod counts only as an object.

    GPUs are charged by the names that the pod writes, and in percent of cores and memory.
    """
    usage = {count_key("", PODS): ONE}
    if not is_charged(pod, now):
        return usage
    usage[PODS] = ONE
    nanos = request_nanos(pod)
    requests = _quantities(
        {**nanos, **percent_of_gpus(nanos)}, (r.requests for r in _resources(pod))
    )
    limits = _quantities(limit_nanos(pod), (r.limits for r in _resources(pod)))
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(HUGE_PAGES_PREFIX):
            usage[name] = amount
            usage[REQUESTS + name] = amount
        elif is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX):
            usage[REQUESTS + name] = amount
    usage |= {LIMITS + name: limits[name] for name in _COMPUTE if name in limits}
    return usage


def container_keys(requests: ResourceAmounts, limits: ResourceAmounts) -> set[str]:
    """Return the keys of cpu and memory that a container states an amount for."""
    asked = {name for name in (CPU, MEMORY) if name in requests}
    capped = {LIMITS + name for name in (CPU, MEMORY) if name in limits}
    return asked | {REQUESTS + name for name in asked} | capped


def _quantities(nanos: Mapping[str, int], stated: Iterable[ResourceAmounts]) -> QuotaUsage:
    """Return amounts, each with the suffix family in which the pod states it first."""
    formats: dict[str, str] = {}
    for amounts in stated:
        for name, text in amounts.items():
            amount = parse(text)
            if not amount.is_zero():
                formats.setdefault(name, amount.format)
    return {name: Quantity(n, NANO, formats.get(name, DECIMAL_SI)) for name, n in nanos.items()}


def _resources(pod: Pod) -> Iterator[ResourceRequirements]:
    if pod.spec.resources is not None:
        yield pod.spec.resources
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        yield container.resources
    yield ResourceRequirements(requests=pod.spec.overhead, limits=pod.spec.overhead)


def service_usage(service: Service) -> QuotaUsage:
    """Return what a service charges: node ports by its ports, before any is allocated."""
    spec = service.spec
    usage = {"services": ONE, count_key("", "services"): ONE}
    ports = len(spec.ports)
    if spec.type == "LoadBalancer":
        usage["services.loadbalancers"] = ONE
        if spec.allocate_load_balancer_node_ports is False:
            ports = sum(port.node_port != 0 for port in spec.ports)
    if spec.type in ("LoadBalancer", "NodePort") and ports:
        usage["services.nodeports"] = Quantity(ports)
    return usage


def volume_claim_usage(claim: PersistentVolumeClaim) -> QuotaUsage:
    """Return what a volume claim charges, in all and for its storage class."""
    usage = {VOLUME_CLAIMS: ONE, count_key("", VOLUME_CLAIMS): ONE}
    if "storage" in claim.spec.resources.requests:
        usage[STORAGE] = _storage(claim)
    if prefix := claim.storage_class:
        for key in (VOLUME_CLAIMS, STORAGE):
            if key in usage:
                usage[prefix + PER_STORAGE_CLASS + key] = usage[key]
    return usage


def _storage(claim: PersistentVolumeClaim) -> Quantity:
    """Return the larger of the requested and the allocated size, in whole bytes."""
    size = _whole(parse(claim.spec.resources.requests["storage"]))
    allocated = claim.status.allocated_resources.get("storage")
    if allocated is not None and parse(allocated) > size:
        return _whole(parse(allocated))
    return size


def _whole(size: Quantity) -> Quantity:
    rounded, exact = size.round_up(0)
    return size if exact else rounded


def claim_usage(claim: ResourceClaim, lookups: Lookups) -> QuotaUsage:
    """Return what a resource claim charges: its devices by class, and by extended resource.

    The claim of a pod's extended resources charges on the keys of extended resources only what the
    pod does not charge already.
    """
    usage = {count_key("resource.k8s.io", "resourceclaims"): ONE}
    devices: QuotaUsage = {}
    for request in claim.spec.devices.requests:
        counted = devices_of_request(request)
        add_usage(devices, {name: Quantity(count) for name, count in counted.items()})
    extended: QuotaUsage = {}
    for device_class, count in devices.items():
        usage[device_class + PER_DEVICE_CLASS] = count
        if not lookups.extended_resources:
            continue
        extended[IMPLICIT_REQUESTS + device_class] = count
        if name := lookups.extended_name_of(device_class):
            add_usage(extended, {REQUESTS + name: count})
    pod = _charged_pod(claim, lookups)
    usage |= growth(extended, pod_usage(pod, lookups.now) if pod is not None else {})
    return usage


def pod_owner_of(claim: ResourceClaim) -> OwnerReference | None:
    """Return the reference to the pod whose extended resources a claim is for, or None."""
    if claim.metadata.annotations.get(EXTENDED_CLAIM) != "true":
        return None
    owner = controller_of(claim)
    is_pod = owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod")
    return owner if is_pod else None


def _charged_pod(claim: ResourceClaim, lookups: Lookups) -> Pod | None:
    """Return the pod that charges the devices of its extended resource claim, or None.

    The pod must exist and name the claim. While it names none, its earliest such claim counts.
    """
    owner = pod_owner_of(claim)
    pod = lookups.pod(claim.namespace, owner.name) if owner is not None else None
    if owner is None or pod is None or pod.uid != owner.uid:
        return None
    status = pod.status.extended_resource_claim_status
    if status is not None:
        return pod if status.resource_claim_name == claim.name else None
    mine = _age(claim)
    for other in lookups.claims_owned_by(claim.namespace, pod.uid):
        of_pod = pod_owner_of(other)
        if of_pod is not None and of_pod.uid == pod.uid and _age(other) < mine:
            return None
    return pod


def _age(claim: ResourceClaim) -> tuple[float, str]:
    created = claim.metadata.creation_timestamp
    return (parse_rfc3339(created) if created else 0.0, claim.name)
