"""The objects that a list or watch selects: namespace, label selector, field selector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from holdfast.api import fields, labels
from holdfast.api.indexed_selectors import (
    IndexedFieldSelector,
    IndexedLabelSelector,
    field_matcher,
    label_matcher,
)
from holdfast.runtime.errors import BadRequest
from holdfast.server.descriptor import Conversion, SelectableField
from holdfast.server.operation import Operation
from holdfast.server.store import Store, StoredObject

_LabelMatcher = labels.Selector | IndexedLabelSelector
_ALWAYS = ("metadata.name", "metadata.namespace")
_FieldMatcher = fields.FieldSelector | IndexedFieldSelector


@dataclass(frozen=True, slots=True)
class Selection:
    """A resource, a namespace and selectors."""

    group: str
    plural: str
    namespace: str
    selectable_fields: Mapping[str, SelectableField]
    labels: labels.Selector = labels.EVERYTHING
    fields: fields.FieldSelector = fields.EVERYTHING
    _by_label: _LabelMatcher = field(init=False)
    _by_field: _FieldMatcher = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_label", label_matcher(self.labels))
        object.__setattr__(self, "_by_field", field_matcher(self.fields))

    @property
    def everything(self) -> bool:
        """Whether there are no selectors."""
        return self.labels.everything and not self.fields.requirements

    def selects(self, stored: StoredObject) -> bool:
        """Return whether an object matches."""
        if self.namespace and stored.key.namespace != self.namespace:
            return False
        if not self.labels.everything and not self._by_label.matches(stored.index.labels):
            return False
        if not self.fields.requirements:
            return True
        return self._by_field.matches(partial(self._field, stored))

    def _field(self, stored: StoredObject, name: str) -> str:
        """Return the value of a selectable field of a stored object."""
        if name == "metadata.name":
            return stored.key.name
        if name == "metadata.namespace":
            return stored.key.namespace
        known = self.selectable_fields[name]
        if known.indexed:
            return stored.index.fields.get(name, "")
        return read_field(msgspec.json.decode(stored.value), known)

    def list_now(self, store: Store) -> list[StoredObject]:
        """List the committed objects, using the store's indexes where possible."""
        name = self.fields.exact("metadata.name")
        space = self.namespace or self.fields.exact("metadata.namespace") or None
        pairs = {
            r.key: r.values[0]
            for r in self.labels.requirements or ()
            if r.operator in ("=", "==") or (r.operator == "in" and len(r.values) == 1)
        }
        exact = {r.path: r.value for r in self.fields.requirements if r.equal and r.value}
        known = {
            path: value
            for path, value in exact.items()
            if path in self.selectable_fields and self.selectable_fields[path].indexed
        }
        objects = store.list(self.group, self.plural, space, labels=pairs, fields=known)
        if name is not None:
            objects = [stored for stored in objects if stored.key.name == name]
        return objects if self.everything else [s for s in objects if self.selects(s)]

    def list_at(self, store: Store, revision: int) -> list[StoredObject]:
        """List the objects at a revision."""
        objects = store.list_at(revision, self.group, self.plural, self.namespace or None)
        return objects if self.everything else [s for s in objects if self.selects(s)]


def selection_of(op: Operation) -> Selection:
    """Parse the selectors of a request; raise BadRequest for an unsupported field."""
    query = op.request.query
    by_label, by_field = query.get("labelSelector", ""), query.get("fieldSelector", "")
    label_selector = labels.parse(by_label) if by_label else labels.EVERYTHING
    field_selector = fields.parse(by_field) if by_field else fields.EVERYTHING
    descriptor = op.descriptor
    if descriptor.conversion is not None:
        field_selector = _as_stored(descriptor.conversion, field_selector)
    for requirement in field_selector.requirements:
        if requirement.path not in _ALWAYS and requirement.path not in descriptor.selectable_fields:
            raise BadRequest(f"field label not supported: {requirement.path}")
    return Selection(
        *descriptor.group_resource,
        op.request_info.namespace,
        descriptor.selectable_fields,
        label_selector,
        field_selector,
    )


def _as_stored(conversion: Conversion, selector: fields.FieldSelector) -> fields.FieldSelector:
    path = conversion.field_path
    return fields.FieldSelector(tuple(replace(r, path=path(r.path)) for r in selector.requirements))


def read_field(obj: Any, field: SelectableField) -> str:
    """Return the value of a field as text, as Go prints it.

    >>> unschedulable = SelectableField(("spec", "unschedulable"), absent="false")
    >>> read_field({"spec": {"unschedulable": True}}, unschedulable)
    'true'
    """
    for part in field.path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    if obj is None:
        return field.absent
    if isinstance(obj, bool):
        return "true" if obj else "false"
    return str(obj)
