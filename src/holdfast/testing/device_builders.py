"""Builders of devices, device classes and claims for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.api import scheme
from holdfast.api.decode import JsonObject
from holdfast.testing.builders import Labels, an_object, camel, kept


def a_device_class(
    name: str = "gpu", *, driver: str = "gpu.example.com", selectors: Sequence[str] | None = None,
    **spec: Any,
) -> JsonObject:  # fmt: skip
    """A device class of all devices of ``driver``, or of the CEL ``selectors``."""
    rules = selectors if selectors is not None else [f'device.driver == "{driver}"']
    body = {"selectors": [_cel(rule) for rule in rules]}
    return an_object(scheme.DEVICE_CLASSES, name, body | camel(spec))


def a_device(
    name: str = "gpu-0",
    *,
    attributes: Mapping[str, Any] | None = None,
    capacity: Mapping[str, Any] | None = None,
    **fields: Any,
) -> JsonObject:
    """A device of a slice; plain attribute values and amounts get the form of the API."""
    wrapped = {key: _attribute(value) for key, value in (attributes or {}).items()}
    amounts = {
        key: value if isinstance(value, dict) else {"value": value}
        for key, value in (capacity or {}).items()
    }
    return kept(name=name, attributes=wrapped or None, capacity=amounts or None) | camel(fields)


def a_slice(
    name: str = "n-gpu",
    *,
    node: str | None = "n",
    driver: str = "gpu.example.com",
    devices: Sequence[Mapping[str, Any]] | int = 1,
    pool: str = "",
    generation: int = 1,
    slices: int = 1,
    **spec: Any,
) -> JsonObject:
    """A slice of a node's devices; a number creates that many plain ones from gpu-0 on."""
    made = [a_device(f"gpu-{n}") for n in range(devices)] if isinstance(devices, int) else devices
    body = kept(
        driver=driver,
        nodeName=node,
        pool={"name": pool or node or name, "generation": generation, "resourceSliceCount": slices},
        devices=[dict(device) for device in made],
    )
    return an_object(scheme.RESOURCE_SLICES, name, body | camel(spec))


def a_taint_rule(
    name: str = "r",
    *,
    key: str = "example.com/broken",
    value: str | None = None,
    effect: str = "NoSchedule",
    **selector: str,
) -> JsonObject:
    """A rule that taints devices selected by ``driver``, ``pool`` and ``device``, or all."""
    taint = kept(key=key, value=value, effect=effect)
    body = kept(deviceSelector=dict(selector) or None, taint=taint)
    return an_object(scheme.DEVICE_TAINT_RULES, name, body)


def a_claim(
    name: str = "c",
    *,
    namespace: str = "default",
    device_class: str = "gpu",
    count: int = 1,
    selectors: Sequence[str] = (),
    requests: Sequence[Mapping[str, Any]] | None = None,
    constraints: Sequence[Mapping[str, Any]] = (),
    labels: Labels = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> JsonObject:
    """A claim for ``count`` devices of a class, or with the entries ``requests``."""
    body = _devices(device_class, count, selectors, requests, constraints)
    made = an_object(
        scheme.RESOURCE_CLAIMS, name, body, namespace=namespace, labels=labels, metadata=metadata
    )
    return made | ({"status": dict(status)} if status else {})


def a_claim_template(
    name: str = "ct",
    *,
    namespace: str = "default",
    device_class: str = "gpu",
    count: int = 1,
    selectors: Sequence[str] = (),
    requests: Sequence[Mapping[str, Any]] | None = None,
    constraints: Sequence[Mapping[str, Any]] = (),
) -> JsonObject:
    """A claim template; arguments are those of ``a_claim``."""
    body = {"spec": _devices(device_class, count, selectors, requests, constraints)}
    return an_object(scheme.RESOURCE_CLAIM_TEMPLATES, name, body, namespace=namespace)


def _devices(
    device_class: str,
    count: int,
    selectors: Sequence[str],
    requests: Sequence[Mapping[str, Any]] | None,
    constraints: Sequence[Mapping[str, Any]],
) -> JsonObject:
    exactly = kept(
        deviceClassName=device_class,
        count=count,
        selectors=[_cel(rule) for rule in selectors] or None,
    )
    wanted = [dict(r) for r in requests] if requests else [{"name": "req-0", "exactly": exactly}]
    return {"devices": kept(requests=wanted, constraints=[dict(c) for c in constraints] or None)}


def _cel(expression: str) -> JsonObject:
    return {"cel": {"expression": expression}}


def _attribute(value: Any) -> JsonObject:
    if isinstance(value, dict):
        return value
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {kind: value}
