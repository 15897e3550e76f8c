"""Checks of classes and claims that depend on the request: gates, permissions, admin access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from holdfast.api import field_errors, names
from holdfast.api.decode import JsonMapping, JsonObject
from holdfast.api.json_fields import list_at, map_at, maps_at, text_at
from holdfast.api.node_selection import NAME_FIELD
from holdfast.api.validation.device_class import check_device_class
from holdfast.api.validation.device_selectors import SelectorRules, selector_rules
from holdfast.api.validation.json_fields import is_same
from holdfast.api.validation.resource_claim import check_claim, check_claim_template
from holdfast.api.validation.resource_claim_status import (
    AllocatedDeviceId,
    allocated_devices,
    check_claim_status,
    device_id,
    is_same_allocation,
)
from holdfast.runtime.errors import Cause
from holdfast.runtime.feature_gates import Feature
from holdfast.server.access.rbac import forbidden_message
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode
from holdfast.server.store import ObjectKey
from holdfast.server.user import SERVICE_ACCOUNT

_ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_NODE_OF_ACCOUNT = "authentication.kubernetes.io/node-name"


def drop_unallocated_devices(op: Operation, claim: JsonObject, old: JsonObject | None) -> None:
    """Remove the statuses of devices that a write takes out of the allocation."""
    status = claim.get("status") or {}
    if old is None or op.request_info.subresource != "status" or not status.get("devices"):
        return
    gone = allocated_devices(map_at(old, "status")) - allocated_devices(status)
    kept = [device for device in maps_at(status, "devices") if device_id(device) not in gone]
    claim["status"] = {**status, "devices": kept}
    if not kept:
        del claim["status"]["devices"]


def warn_of_upper_case(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn if the driver name of a slice is not in lower case."""
    driver = text_at(map_at(new, "spec"), "driver")
    if driver != driver.lower():
        op.warnings.append(
            f"spec.driver: driver names should be lowercase; {field_errors.go_quoted(driver)} "
            "contains uppercase characters"
        )


def _selector_rules(op: Operation) -> SelectorRules:
    on = op.context.feature_gates.enabled
    return selector_rules(
        shared_devices=on(Feature.CONSUMABLE_CAPACITY), list_attributes=on(Feature.LIST_ATTRIBUTES)
    )


def check_class_request(op: Operation, new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """Return what is wrong with a device class."""
    return check_device_class(new, old, _selector_rules(op))


def check_claim_request(op: Operation, new: JsonObject, old: JsonObject | None) -> Iterator[Cause]:
    """Yield what is wrong with a claim, and what a request may not write to it."""
    yield from check_claim(new, old, _selector_rules(op))
    if old is None:
        yield from _check_admin_requests(op, map_at(new, "spec"))
    elif op.request_info.subresource == "status":
        status, before = map_at(new, "status"), map_at(old, "status")
        yield from _check_admin_results(op, status, before)
        if op.context.feature_gates.enabled(Feature.GRANULAR_STATUS_AUTHORIZATION):
            yield from _check_binding(op, status, before)
            if status.get("allocation") is not None:
                yield from _check_drivers(op, status, before)
        yield from check_claim_status(new, old)


def check_template_request(
    op: Operation, new: JsonObject, old: JsonObject | None
) -> Iterator[Cause]:
    """Yield what is wrong with a claim template, and what a request may not write to it."""
    yield from check_claim_template(new, old, _selector_rules(op))
    if old is None:
        yield from _check_admin_requests(op, map_at(map_at(new, "spec"), "spec"))


def _check_admin_requests(op: Operation, spec: JsonMapping) -> Iterable[Cause]:
    requests = maps_at(map_at(spec, "devices"), "requests")
    wanted = [map_at(request, "exactly") for request in requests]
    return _check_admin_access(op, wanted, "spec.devices.requests")


def _check_admin_results(
    op: Operation, status: JsonMapping, before: JsonMapping
) -> Iterable[Cause]:
    now, earlier = (
        maps_at(map_at(map_at(one, "allocation"), "devices"), "results") for one in (status, before)
    )
    if any(result.get("adminAccess") for result in earlier):
        return ()
    return _check_admin_access(op, now, "status.allocation.devices.results")


def _check_admin_access(op: Operation, wanted: Iterable[Any], path: str) -> Iterator[Cause]:
    """Refuse the first entry with admin access, unless the namespace has the label."""
    first = next((i for i, one in enumerate(wanted) if one.get("adminAccess")), None)
    if first is None:
        return
    stored = op.context.store.latest(ObjectKey("", "namespaces", "", op.request_info.namespace))
    labels = map_at(map_at(decode(stored), "metadata"), "labels") if stored else {}
    if labels.get(_ADMIN_LABEL) != "true":
        message = (
            f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing "
            "namespace"
        )
        yield field_errors.forbidden(f"{path}[{first}].adminAccess", message)


def _check_binding(op: Operation, status: JsonMapping, before: JsonMapping) -> Iterator[Cause]:
    """Check the right to allocate and reserve: resourceclaims/binding in the whole cluster."""
    if is_same_allocation(status.get("allocation"), before.get("allocation")) and is_same(
        status.get("reservedFor"), before.get("reservedFor")
    ):
        return
    verb = op.request_info.verb
    if refusal := _refusal(op, verb, "binding", "", ""):
        message = (
            "changing status.allocation or status.reservedFor requires "
            f'resource="resourceclaims/binding", verb="{verb}" permission: {refusal}'
        )
        yield field_errors.forbidden("status.allocation", message)


def _check_drivers(op: Operation, status: JsonMapping, before: JsonMapping) -> Iterator[Cause]:
    """Check the right to write the status of the devices of each driver."""
    verbs = [f"arbitrary-node:{op.request_info.verb}"]
    if _runs_on_node(op, _node_of(map_at(status, "allocation"))):
        verbs.insert(0, f"associated-node:{op.request_info.verb}")
    space = op.request_info.namespace
    for driver in sorted(_changed_drivers(status, before)):
        refusals = [_refusal(op, verb, "driver", space, driver) for verb in verbs]
        if all(refusals):
            message = (
                'changing status.devices requires resource="resourceclaims/driver", '
                f'verb="[{" ".join(verbs)}]" permission: {refusals[0]}'
            )
            yield field_errors.forbidden("status.devices", message)


def _refusal(op: Operation, verb: str, subresource: str, namespace: str, name: str) -> str:
    """Return why a user lacks a right on claims, or ""."""
    asked = replace(
        op.request_info, verb=verb, subresource=subresource, namespace=namespace, name=name
    )
    if op.context.authorizer.allows(op.user, asked):
        return ""
    return forbidden_message(op.user, asked)


def _changed_drivers(status: JsonMapping, before: JsonMapping) -> set[str]:
    """Return the drivers of device statuses that were added, removed or changed."""
    now, earlier = (
        {device_id(device): device for device in maps_at(one, "devices")}
        for one in (status, before)
    )
    changed: set[AllocatedDeviceId] = {
        key for key in {*now, *earlier} if not is_same(now.get(key), earlier.get(key))
    }
    return {driver for driver, *_ in changed}


def _node_of(allocation: JsonMapping) -> str:
    """Return the node that an allocation is limited to by name, or ""."""
    terms = maps_at(map_at(allocation, "nodeSelector"), "nodeSelectorTerms")
    fields = maps_at(terms[0], "matchFields") if len(terms) == 1 else ()
    if len(fields) != 1 or maps_at(terms[0], "matchExpressions"):
        return ""
    values = list_at(fields[0], "values")
    by_name = (text_at(fields[0], "key"), text_at(fields[0], "operator")) == (NAME_FIELD, "In")
    return str(values[0]) if by_name and len(values) == 1 else ""


def _runs_on_node(op: Operation, node: str) -> bool:
    """Return whether the user is the service account of a pod on this node."""
    extra = op.user.extra.get(_NODE_OF_ACCOUNT, ())
    if not op.user.name.startswith(SERVICE_ACCOUNT) or names.dns_subdomain(node):
        return False
    return tuple(extra) == (node,)
