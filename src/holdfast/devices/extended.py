"""Extended resources served by devices (KEP-5004): from a pod's containers to one special claim.

Containers that stay (regular ones and sidecars) get a request each. An init container that ends
before the others start may use what a later container that stays was given; only what is missing
is requested, and since such containers run one after the other, the largest of their extra
requests serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.api.devices import DeviceClaim, DeviceRequest, ExactRequest, ResourceClaim
from holdfast.api.devices import ResourceClaimSpec as ClaimSpec
from holdfast.api.meta import ObjectMeta, OwnerReference
from holdfast.api.pod import Container, Pod, RequestMapping
from holdfast.api.quantity import Quantity
from holdfast.devices.claims import EXTENDED_CLAIM

IN_MEMORY_NAME = "<extended-resources>"
"""Not a name the API server would accept: this claim exists in one attempt only."""


@dataclass(frozen=True, slots=True)
class ExtendedResourceRequest:
    """So many devices of a class, for one container or shared by short-lived ones."""

    name: str
    device_class: str
    count: int

    def written(self) -> DeviceRequest:
        """The request as it stands in the claim."""
        exactly = ExactRequest(device_class_name=self.device_class, count=self.count)
        return DeviceRequest(name=self.name, exactly=exactly)


@dataclass(slots=True)
class Breakdown:
    """The requests of the special claim and which container's resource each serves."""

    requests: list[ExtendedResourceRequest] = field(default_factory=list)
    mappings: list[RequestMapping] = field(default_factory=list)


def break_down(
    pod: Pod, resources: Sequence[str], class_for: Callable[[str], str | None]
) -> Breakdown:
    """Work out the requests for those of the pod's resources that devices must serve."""
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    short = [
        i for i, c in enumerate(spec.init_containers) if c.restart_policy != "Always"
    ]  # fmt: skip
    found = Breakdown()
    for resource in sorted(resources):
        device_class = class_for(resource)
        if device_class is not None:
            _one_resource(found, containers, short, resource, device_class)
    found.requests.sort(key=lambda request: request.name)
    return found


def _one_resource(
    found: Breakdown,
    containers: Sequence[Container],
    short: Sequence[int],
    resource: str,
    device_class: str,
) -> None:
    lasting: dict[int, ExtendedResourceRequest] = {}
    for i, container in enumerate(containers):
        quantity = _quantity(container, resource)
        if i not in short and quantity:
            lasting[i] = ExtendedResourceRequest(
                _request_name(i, container, resource), device_class, quantity
            )
            found.mappings.append(_mapping(container, resource, lasting[i].name))
    extras: dict[int, ExtendedResourceRequest] = {}
    reused: list[tuple[int, list[str]]] = []
    for i in short:
        later = [request for place, request in lasting.items() if place >= i]
        missing, names = _reuse(_quantity(containers[i], resource), later)
        reused.append((i, names))
        if missing:
            name = _request_name(i, containers[i], resource)
            extras[i] = ExtendedResourceRequest(name, device_class, missing)
    largest = max(extras.values(), key=lambda request: request.count, default=None)
    for i, names in reused:
        extra = [largest.name] if largest is not None and i in extras else []
        found.mappings += (_mapping(containers[i], resource, name) for name in (*names, *extra))
    found.requests += ([] if largest is None else [largest]) + list(lasting.values())


def _reuse(quantity: int, later: Sequence[ExtendedResourceRequest]) -> tuple[int, list[str]]:
    """Cover a quantity with requests of later containers; answer what is missing."""
    names: list[str] = []
    for request in later:
        if quantity <= 0:
            break
        names.append(request.name)
        quantity -= request.count
    return max(quantity, 0), names


def _quantity(container: Container, resource: str) -> int:
    text = container.resources.requests.get(resource)
    return 0 if text is None else Quantity.parse(text).value()


def _request_name(index: int, container: Container, resource: str) -> str:
    """Number the resource among all the container's requests, cpu and memory included."""
    place = sorted(container.resources.requests).index(resource)
    return f"container-{index}-request-{place}"


def _mapping(container: Container, resource: str, request: str) -> RequestMapping:
    return RequestMapping(
        container_name=container.name, resource_name=resource, request_name=request
    )


def special_claim(pod: Pod, uid: str, breakdown: Breakdown) -> ResourceClaim:
    """The special claim as it is in memory, before the API server gives it a name."""
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
    requests = tuple(request.written() for request in breakdown.requests)
    return ResourceClaim(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaim",
        metadata=meta,
        spec=ClaimSpec(devices=DeviceClaim(requests=requests)),
    )
