"""Which objects a list or watch is about: namespace, label selector, field selector."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from holdfast.api import fields, labels
from holdfast.api.long_selectors import (
    LongFieldSelector,
    LongLabelSelector,
    field_matcher,
    label_matcher,
)
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.registry import Served
from holdfast.apiserver.verbs.selectable import ALWAYS, SELECTABLE, field_of
from holdfast.errors import BadRequest
from holdfast.store import Store, Stored

_LabelMatcher = labels.Selector | LongLabelSelector
_FieldMatcher = fields.FieldSelector | LongFieldSelector


@dataclass(frozen=True, slots=True)
class Selection:
    """What is asked for; no selector at all is ``everything``."""

    group: str
    plural: str
    namespace: str
    labels: labels.Selector = labels.EVERYTHING
    fields: fields.FieldSelector = fields.EVERYTHING
    _by_label: _LabelMatcher = field(init=False)
    _by_field: _FieldMatcher = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_label", label_matcher(self.labels))
        object.__setattr__(self, "_by_field", field_matcher(self.fields))

    @property
    def everything(self) -> bool:
        """Whether no selector narrows the collection."""
        return self.labels.everything and not self.fields.requirements

    def selects(self, stored: Stored) -> bool:
        """Tell whether an object belongs."""
        if self.namespace and stored.key.namespace != self.namespace:
            return False
        if not self.labels.everything and not self._by_label.matches(stored.indexed.labels):
            return False
        if not self.fields.requirements:
            return True
        return self._by_field.matches(partial(field_of, stored))

    def list_now(self, store: Store) -> list[Stored]:
        """List what is committed, letting the store's indexes narrow first."""
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
            if path in ("spec.nodeName", "involvedObject.name", "involvedObject.uid")
        }
        if self.plural not in ("pods", "events"):
            known = {}
        found = store.list(self.group, self.plural, space, labels=pairs, fields=known)
        if name is not None:
            found = [stored for stored in found if stored.key.name == name]
        return found if self.everything else [s for s in found if self.selects(s)]

    def list_at(self, store: Store, revision: int) -> list[Stored]:
        """List what was there at a revision."""
        found = store.list_at(revision, self.group, self.plural, self.namespace or None)
        return found if self.everything else [s for s in found if self.selects(s)]


def selection_of(op: Operation) -> Selection:
    """Read the selectors of a request, refusing fields the kind does not offer."""
    query = op.request.query
    by_label, by_field = query.get("labelSelector", ""), query.get("fieldSelector", "")
    label_selector = labels.parse(by_label) if by_label else labels.EVERYTHING
    field_selector = fields.parse(by_field) if by_field else fields.EVERYTHING
    if op.served.words:
        field_selector = _in_stored_words(op.served, field_selector)
    for requirement in field_selector.requirements:
        if not _offers(op.served, requirement.path):
            raise BadRequest(f"field label not supported: {requirement.path}")
    return Selection(*op.served.id, op.call.namespace, label_selector, field_selector)


def _in_stored_words(served: Served, selector: fields.FieldSelector) -> fields.FieldSelector:
    stored = {shown: kept for kept, shown in served.words.items()}

    def path(text: str) -> str:
        head, dot, rest = text.partition(".")
        return f"{stored.get(head, head)}{dot}{rest}"

    return fields.FieldSelector(tuple(replace(r, path=path(r.path)) for r in selector.requirements))


def _offers(served: Served, path: str) -> bool:
    if path in ALWAYS:
        return True
    if served.custom is not None:
        return path in served.custom.selectable
    return path in SELECTABLE.get(served.id, {})
