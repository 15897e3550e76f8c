"""Devices in maxResources: each counts once, whichever name or claim asked for it.

A device class has an implicit resource name, and perhaps an explicit one; claims ask for devices of
the class without a name. GPUs of Koordinator have several names and percent of each other.

When each name was counted separately, three pods were placed where the cap was one: one asked for
the explicit name, one for the implicit one, one used a claim. So what a pod asks for is added up by
device class first, and then written in every capped name of the class. A claim counts once for all
pods that share it. ``ClaimingPodSum`` stores what each pod has added: its claim may be gone before
the pod is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from holdfast.api.pod import Pod, claim_name
from holdfast.api.resource_names import DEVICE_CLASS_PREFIX, may_be_devices
from holdfast.state.columns.interner import ResourceNames
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.device_share.requests import amount_as


class KnownDevices(Protocol):
    """The device classes and claims that are known."""

    def device_class_for(self, resource: str) -> str | None:
        """Return the class that serves an extended resource, or None."""
        ...

    def extended_name_of(self, device_class: str) -> str:
        """Return the explicit extended resource name of a class, or ""."""
        ...

    def devices_of(self, namespace: str, name: str) -> Mapping[str, int]:
        """Return the devices of a claim by class; none while the claim is unknown."""
        ...


def names_of_devices(resources: Collection[str]) -> frozenset[str]:
    """Return which of some resources may be devices."""
    return frozenset(filter(may_be_devices, resources))


def in_capped_names(
    request: Mapping[str, int], capped: Collection[str], known: KnownDevices
) -> dict[str, int]:
    """Return what a request for devices amounts to in each of the capped names."""
    of_class: dict[str, int] = {}
    for name, amount in request.items():
        if class_name := _class_of(name, known):
            of_class[class_name] = of_class.get(class_name, 0) + amount
    written = {name: a for name, a in request.items() if not name.startswith(DEVICE_CLASS_PREFIX)}
    explicit: dict[str, int] = {}
    for device_class, amount in of_class.items():
        if name := known.extended_name_of(device_class):
            explicit[name] = explicit.get(name, 0) + amount
    written |= explicit
    return {
        name: of_class.get(name.removeprefix(DEVICE_CLASS_PREFIX), 0)
        if name.startswith(DEVICE_CLASS_PREFIX)
        else amount_as(name, written)
        for name in capped
    }


def _class_of(resource: str, known: KnownDevices) -> str | None:
    if resource.startswith(DEVICE_CLASS_PREFIX):
        return resource.removeprefix(DEVICE_CLASS_PREFIX)
    return known.device_class_for(resource)


class CappedDevices:
    """The requests of pods for the devices among some capped resources."""

    def __init__(
        self, capped: tuple[int, ...], resources: ResourceNames, known: KnownDevices
    ) -> None:
        self._resources = resources
        self._known = known
        devices = names_of_devices([resources[id_] for id_ in capped])
        self._positions = {
            resources[id_]: i for i, id_ in enumerate(capped) if resources[id_] in devices
        }
        self._none = (0,) * len(capped)

    def with_requested(self, amounts: tuple[int, ...], pod_info: PodInfo) -> tuple[int, ...]:
        """Return capped amounts of a pod, where devices are replaced by those under any name."""
        names = self._resources
        request = {names[id_]: amount for id_, amount in pod_info.request}
        if not names_of_devices(request):
            return amounts
        return self._replaced(amounts, request)

    def of_claims(self, pod: Pod) -> dict[str, tuple[int, ...]]:
        """Return what each claim of a pod adds to the capped amounts, by the claim's name."""
        by_claim: dict[str, tuple[int, ...]] = {}
        for entry in pod.structured_claims:
            if not (name := claim_name(pod, entry)):
                continue
            devices = self._known.devices_of(pod.namespace, name)
            request = {DEVICE_CLASS_PREFIX + of: count for of, count in devices.items()}
            amounts = self._replaced(self._none, request)
            if any(amounts):
                by_claim[name] = amounts
        return by_claim

    def _replaced(self, amounts: tuple[int, ...], request: Mapping[str, int]) -> tuple[int, ...]:
        """Return capped amounts, with what a request amounts to for devices."""
        new_amounts = list(amounts)
        for name, amount in in_capped_names(request, self._positions, self._known).items():
            new_amounts[self._positions[name]] = amount
        return tuple(new_amounts)
