"""How many devices of each class a resource claim asks for."""

from __future__ import annotations

from holdfast.api.devices import ALL, EXACT_COUNT, MAX_DEVICES, DeviceRequest, ResourceClaim


def devices_of_request(request: DeviceRequest) -> dict[str, int]:
    """Return the devices of a request by class; of alternatives, the maximum for each class.

    A request for all devices counts as many as a claim can get.
    """
    alternatives = request.first_available or ((request.exactly,) if request.exactly else ())
    most: dict[str, int] = {}
    for one in alternatives:
        count = {EXACT_COUNT: one.count, ALL: MAX_DEVICES}.get(one.allocation_mode, 0)
        most[one.device_class_name] = max(most.get(one.device_class_name, 0), count)
    return most


def devices_of_claim(claim: ResourceClaim) -> dict[str, int]:
    """Return the devices of a claim by class, without those that it only administers."""
    total: dict[str, int] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is None or not request.exactly.admin_access:
            for device_class, count in devices_of_request(request).items():
                total[device_class] = total.get(device_class, 0) + count
    return total
