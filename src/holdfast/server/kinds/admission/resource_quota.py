"""Admission by ResourceQuota: a write that exceeds a quota is refused, any other is charged.

The usage is written to the status of the quotas in the transaction of the object, so concurrent
requests cannot exceed a quota, and no failure leaves a charge without an object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.api.decode import JsonObject, convert_object, decode_object
from holdfast.api.devices import DeviceClass, ResourceClaim
from holdfast.api.pod import Pod
from holdfast.api.resource_quota import ResourceQuota
from holdfast.runtime.feature_gates import Feature
from holdfast.server.descriptor import AdmissionPlugin
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode, value_builder
from holdfast.server.store import ObjectKey, Store, StoredObject
from holdfast.server.store.store import ValueBuilder
from holdfast.state.quota.charging import Charge, QuotaRefusal, charge_write
from holdfast.state.quota.evaluators import IGNORED, evaluator_of

_QUOTAS = ("", "resourcequotas")
_CLASSES = ("resource.k8s.io", "deviceclasses")
_CLAIMS = ("resource.k8s.io", "resourceclaims")


@dataclass(frozen=True, slots=True)
class StoredLookups:
    """Reads what the usage of an object depends on from the store."""

    store: Store
    now: float
    extended_resources: bool

    def extended_name_of(self, device_class: str) -> str:
        """Return the explicit extended resource name of a device class, or ""."""
        stored = self.store.latest(ObjectKey(*_CLASSES, "", device_class))
        if stored is None:
            return ""
        return decode_object(stored.value, DeviceClass).spec.extended_resource_name or ""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, or None."""
        stored = self.store.latest(ObjectKey("", "pods", namespace, name))
        return decode_object(stored.value, Pod) if stored is not None else None

    def claims_owned_by(self, namespace: str, uid: str) -> Iterable[ResourceClaim]:
        """Return the resource claims with this uid among their owners."""
        return [
            decode_object(stored.value, ResourceClaim)
            for stored in self.store.dependents(uid)
            if (stored.key.group, stored.key.plural, stored.key.namespace) == (*_CLAIMS, namespace)
        ]


def charge_quotas(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Charge a write to the quotas of its namespace; raise Forbidden if it exceeds one."""
    resource = op.descriptor.group_resource
    namespace = op.request_info.namespace
    if not namespace or not op.descriptor.resource.namespaced or resource in IGNORED:
        return
    evaluator, subresource = evaluator_of(*resource), op.request_info.subresource
    if not evaluator.handles(subresource, created=old is None):
        return
    stored = _quotas(op.context.store, namespace)
    if not stored:
        return
    after = convert_object(new, evaluator.type)
    before = convert_object(old, evaluator.type) if old is not None else None
    if before is not None and not evaluator.may_grow(after, before):
        return
    quotas = [convert_object(decode(each), ResourceQuota) for each in stored]
    extended = op.context.feature_gates.enabled(Feature.EXTENDED_RESOURCE)
    lookups = StoredLookups(op.context.store, op.context.clock.now(), extended)
    enforce = subresource != "status"
    result = charge_write(quotas, evaluator, after, before, lookups, enforce=enforce)
    if isinstance(result, QuotaRefusal):
        raise op.forbidden(result.message, new)
    by_name = {each.key.name: each for each in stored}
    op.related_writes += [_write(by_name[charge.quota.name], charge) for charge in result]


def _quotas(store: Store, namespace: str) -> list[StoredObject]:
    quotas = (store.latest(each.key) for each in store.list(*_QUOTAS, namespace))
    return [each for each in quotas if each is not None]


def _write(stored: StoredObject, charge: Charge) -> tuple[StoredObject, ValueBuilder]:
    quota = decode(stored)
    status = {**(quota.get("status") or {}), "used": charge.used}
    return stored, value_builder({**quota, "status": status})


QUOTA_ADMISSION = AdmissionPlugin(validate=charge_quotas)
