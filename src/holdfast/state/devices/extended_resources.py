"""Create one claim for a pod's extended resources that devices serve (KEP-5004).

Regular containers and sidecars get one request each. An ordinary init container ends before the
later containers start, so it reuses their devices and requests only what is missing. Such init
containers run one after the other, so the largest of their additional requests serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.api.devices import (
    EXTENDED_CLAIM,
    DeviceClaim,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
)
from holdfast.api.devices import ResourceClaimSpec as ClaimSpec
from holdfast.api.meta import ObjectMeta, OwnerReference
from holdfast.api.pod import Container, ContainerExtendedResourceRequest, Pod
from holdfast.api.quantity import units

IN_MEMORY_NAME = "<extended-resources>"
"""Not a valid object name: this claim exists only in memory, during one attempt."""


@dataclass(frozen=True, slots=True)
class ExtendedResourceRequest:
    """A number of devices of a class, for one container or shared by init containers."""

    name: str
    device_class: str
    count: int

    def to_device_request(self) -> DeviceRequest:
        """Return the request as a claim's spec has it."""
        exactly = ExactRequest(device_class_name=self.device_class, count=self.count)
        return DeviceRequest(name=self.name, exactly=exactly)


@dataclass(slots=True)
class RequestsAndMappings:
    """The requests of the extended resource claim, and the container resource that each serves."""

    requests: list[ExtendedResourceRequest] = field(default_factory=list)
    mappings: list[ContainerExtendedResourceRequest] = field(default_factory=list)


def create_requests_and_mappings(
    pod: Pod, resources: Sequence[str], class_for: Callable[[str], str | None]
) -> RequestsAndMappings:
    """Return requests and mappings for those of the pod's extended resources that devices serve."""
    if not resources:
        return RequestsAndMappings()
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    ordinary_init = [
        i for i, c in enumerate(spec.init_containers) if c.restart_policy != "Always"
    ]  # fmt: skip
    requests_and_mappings = RequestsAndMappings()
    for resource in sorted(resources):
        device_class = class_for(resource)
        if device_class is not None:
            _one_resource(requests_and_mappings, containers, ordinary_init, resource, device_class)
    requests_and_mappings.requests.sort(key=lambda request: request.name)
    return requests_and_mappings


def _one_resource(
    requests_and_mappings: RequestsAndMappings,
    containers: Sequence[Container],
    ordinary_init: Sequence[int],
    resource: str,
    device_class: str,
) -> None:
    regular: dict[int, ExtendedResourceRequest] = {}
    for i, container in enumerate(containers):
        quantity = _quantity(container, resource)
        if i not in ordinary_init and quantity:
            regular[i] = ExtendedResourceRequest(
                _request_name(i, container, resource), device_class, quantity
            )
            requests_and_mappings.mappings.append(_mapping(container, resource, regular[i].name))
    extras: dict[int, ExtendedResourceRequest] = {}
    reused: list[tuple[int, list[str]]] = []
    for i in ordinary_init:
        later = [request for index, request in regular.items() if index >= i]
        missing, names = _reuse(_quantity(containers[i], resource), later)
        reused.append((i, names))
        if missing:
            name = _request_name(i, containers[i], resource)
            extras[i] = ExtendedResourceRequest(name, device_class, missing)
    largest = max(extras.values(), key=lambda request: request.count, default=None)
    for i, names in reused:
        extra = [largest.name] if largest is not None and i in extras else []
        requests_and_mappings.mappings += (
            _mapping(containers[i], resource, name) for name in (*names, *extra)
        )
    requests_and_mappings.requests += ([] if largest is None else [largest]) + list(
        regular.values()
    )


def _reuse(quantity: int, later: Sequence[ExtendedResourceRequest]) -> tuple[int, list[str]]:
    """Cover a quantity with requests of later containers; return the rest and their names."""
    names: list[str] = []
    for request in later:
        if quantity <= 0:
            break
        names.append(request.name)
        quantity -= request.count
    return max(quantity, 0), names


def _quantity(container: Container, resource: str) -> int:
    text = container.resources.requests.get(resource)
    return 0 if text is None else units(text)


def _request_name(index: int, container: Container, resource: str) -> str:
    """Name a request by container and by the resource's index among all of its requests."""
    place = sorted(container.resources.requests).index(resource)
    return f"container-{index}-request-{place}"


def _mapping(container: Container, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        container_name=container.name, resource_name=resource, request_name=request
    )


def extended_resource_claim(pod: Pod, uid: str, made: RequestsAndMappings) -> ResourceClaim:
    """Return the extended resource claim as it is before the API server gives it a name."""
    meta = ObjectMeta(
        name=IN_MEMORY_NAME,
        namespace=pod.namespace,
        uid=uid,
        generate_name=f"{pod.name}-extended-resources-",
        annotations={EXTENDED_CLAIM: "true"},
        owner_references=(
            OwnerReference(
                api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True
            ),
        ),
    )
    requests = tuple(request.to_device_request() for request in made.requests)
    return ResourceClaim(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaim",
        metadata=meta,
        spec=ClaimSpec(devices=DeviceClaim(requests=requests)),
    )
