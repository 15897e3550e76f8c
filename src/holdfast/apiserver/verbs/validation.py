"""Refuse objects that could not work: names, labels, and what pods and bindings rely on.

Thin for now: the shapes that our own rooms read. Errors name the field in upstream's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from holdfast.api import causes, names
from holdfast.api.decode import without_nulls
from holdfast.apiserver.kinds.admission.priority_classes import ID as PRIORITY_CLASSES
from holdfast.apiserver.kinds.admission.priority_classes import check_priority_class
from holdfast.apiserver.kinds.policies import Id
from holdfast.apiserver.kinds.validation.definitions import ID as DEFINITIONS
from holdfast.apiserver.kinds.validation.definitions import (
    check_definition,
    check_definition_change,
)
from holdfast.apiserver.kinds.validation.pods import check_pod, check_pod_change
from holdfast.apiserver.kinds.validation.role_bindings import (
    check_cluster_role_binding,
    check_role_binding,
    unchangeable_role,
)
from holdfast.apiserver.kinds.validation.scheduling import (
    check_budget,
    check_node,
    check_reservation,
)
from holdfast.apiserver.kinds.validation.workloads import check_workload
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.verbs.metadata import same_after_defaulting
from holdfast.errors import CAUSE_LIMIT, Cause, FieldErrors
from holdfast.validation.list_limits import check_lists

Object = dict[str, Any]

_BINDINGS: Mapping[Id, Callable[[Object], Iterable[Cause]]] = {
    ("rbac.authorization.k8s.io", "rolebindings"): check_role_binding,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): check_cluster_role_binding,
}
_OF_NEW: Mapping[Id, Callable[[Object], Iterable[Cause]]] = {
    ("", "pods"): check_pod,
    ("", "nodes"): check_node,
    ("policy", "poddisruptionbudgets"): check_budget,
    ("apps", "deployments"): check_workload,
    ("apps", "replicasets"): check_workload,
    ("apps", "statefulsets"): check_workload,
    ("apps", "daemonsets"): check_workload,
    DEFINITIONS: check_definition,
    PRIORITY_CLASSES: check_priority_class,
    **_BINDINGS,
}
_OF_CUSTOM: Mapping[Id, Callable[[Object], Iterable[Cause]]] = {
    ("scheduling.koordinator.sh", "reservations"): check_reservation,
}
_LABEL_NAMED = {("", "namespaces")}
_PATH_NAMED = {
    ("rbac.authorization.k8s.io", plural)
    for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
}
_FREEZABLE = {("", "configmaps"), ("", "secrets")}
_IMMUTABLE = {
    ("", "secrets"): ("type",),
    ("resource.k8s.io", "resourceclaims"): ("spec",),
    ("resource.k8s.io", "resourceclaimtemplates"): ("spec",),
}
_UNCHANGEABLE = "field is immutable"
_IMMUTABLE_SPECS = {
    ("apps", "deployments"): ("selector",),
    ("apps", "replicasets"): ("selector",),
}


def _cached(check: names.NameCheck) -> names.NameCheck:
    """Remember the answers: the same few labels stand on thousands of objects."""
    known = lru_cache(maxsize=4096)(check)
    return lambda text: known(text) if len(text) <= _CACHED_LENGTH else check(text)


_CACHED_LENGTH = 512  # longer ones are wrong and would only fill the memory
_label_key = _cached(names.label_key)
_label_value = _cached(names.label_value)


def _first(found: Iterable[Cause]) -> list[Cause]:
    """List as many causes as an error names, and one that tells that there are more."""
    return list(islice(found, CAUSE_LIMIT + 1))


def check_new(op: Operation, obj: Object) -> None:
    """Refuse a new object that is wrong, naming every field that is."""
    _refuse(op, obj, list(check_lists(op.served.id, obj)))
    found = _first(_metadata(op, obj))
    if op.served.custom is not None:
        found += op.served.custom.schema.validate(obj) or _of_custom(op, obj)
    elif check := _OF_NEW.get(op.served.id):
        found += _first(check(obj))
    _refuse(op, obj, found)


def check_changed(op: Operation, new: Object, old: Object) -> None:
    """Refuse a changed object that is wrong or that changes what may not change."""
    _refuse(op, new, list(check_lists(op.served.id, new, old)))
    found = _first(_metadata(op, new))
    if op.served.custom is not None:
        found += op.served.custom.schema.validate(new, old) or _of_custom(op, new, old)
    else:
        found += _first(_of_changed(op, new, old))
    _refuse(op, new, found)


def _of_changed(op: Operation, new: Object, old: Object) -> list[Cause]:
    """List what is wrong with a changed object of a built-in kind.

    What an older server took keeps its mistakes until something else is written.
    """
    check = _OF_NEW.get(op.served.id)
    if op.served.id == ("", "pods"):
        found = [*check_pod_change(new, old)]
    else:
        found = [*(check(new) if check else ()), *_fixed(op, new, old)]
    if found and same_after_defaulting(new, old):
        return [cause for cause in found if cause.field.startswith("annotations.")]
    return found


def _of_custom(op: Operation, obj: Object, old: Object | None = None) -> Iterable[Cause]:
    """List what the schema of one of our own kinds cannot say; its shape is right already.

    What was let in once may have its status written for ever.
    """
    check = _OF_CUSTOM.get(op.served.id)
    if check is None or (old is not None and _says(old) == _says(obj)):
        return ()
    return check(obj)


def _says(obj: Object) -> tuple[Any, Any]:
    return obj.get("spec"), obj["metadata"].get("annotations")


def _refuse(op: Operation, obj: Object, found: list[Cause]) -> None:
    if found:
        r = op.served.resource
        FieldErrors(found).raise_if_any(r.kind, obj["metadata"].get("name", ""), r.group)


def _metadata(op: Operation, obj: Object) -> Iterable[Cause]:
    meta = obj["metadata"]
    name = meta.get("name", "")
    check = names.dns_subdomain
    if op.served.id in _LABEL_NAMED:
        check = names.dns_label
    elif op.served.id in _PATH_NAMED:
        check = names.path_segment
    if not name:
        yield causes.required("metadata.name", "name or generateName is required")
    elif not isinstance(name, str):
        yield causes.invalid("metadata.name", name, "must be a string")
    else:
        for words in check(name):
            yield causes.invalid("metadata.name", name, words)
    yield from _labels(meta.get("labels"))
    yield from _annotations(meta.get("annotations"))
    yield from _owners(meta.get("ownerReferences") or ())
    yield from _finalizers(meta.get("finalizers") or ())


def _owners(references: Iterable[Object]) -> Iterable[Cause]:
    at = "metadata.ownerReferences"
    controllers = []
    for owner in references:
        api_version = owner.get("apiVersion", "")
        if not api_version.rpartition("/")[2]:
            yield causes.invalid(f"{at}.apiVersion", api_version, "version must not be empty")
        for part in ("kind", "name", "uid"):
            if not owner.get(part):
                yield causes.invalid(f"{at}.{part}", "", "must not be empty")
        if (api_version, owner.get("kind")) == ("v1", "Event"):
            words = "/v1, Kind=Event is disallowed from being an owner"
            yield causes.invalid(at, owner, words)
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
    for other in controllers[1:]:
        words = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {other}"
        )
        yield causes.invalid(at, list(references), words)


def _finalizers(finalizers: Iterable[str]) -> Iterable[Cause]:
    at = "metadata.finalizers"
    for name in finalizers:
        for words in _label_key(name):
            yield causes.invalid(at, name, words)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        words = "finalizer orphan and foregroundDeletion cannot be both set"
        yield causes.invalid(at, list(finalizers), words)


def _labels(labels: Any) -> Iterable[Cause]:
    at = "metadata.labels"
    if labels is not None and not isinstance(labels, dict):
        yield causes.invalid(at, labels, "must be a map of strings")
        return
    for key, value in (labels or {}).items():
        for words in _label_key(key):
            yield causes.invalid(at, key, words)
        if not isinstance(value, str):
            yield causes.invalid(at, value, "must be a string")
        else:
            for words in _label_value(value):
                yield causes.invalid(at, value, words)


def _annotations(annotations: Any) -> Iterable[Cause]:
    at = "metadata.annotations"
    if annotations is not None and not isinstance(annotations, dict):
        yield causes.invalid(at, annotations, "must be a map of strings")
        return
    total = 0
    for key, value in (annotations or {}).items():
        for words in _label_key(key.lower()):
            yield causes.invalid(at, key, words)
        if not isinstance(value, str):
            yield causes.invalid(at, value, "must be a string")
        else:
            total += _bytes(key) + _bytes(value)
    if total > 256 * 1024:
        yield Cause(at, "Too long: may not be more than 262144 bytes", "FieldValueTooLong")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _fixed(op: Operation, new: Object, old: Object) -> Iterable[Cause]:
    if op.served.id == DEFINITIONS:
        yield from check_definition_change(new, old)
    if op.served.id == PRIORITY_CLASSES and new.get("value") != (old.get("value") or 0):
        yield causes.forbidden("value", "may not be changed in an update.")
    if op.served.id in _BINDINGS and new.get("roleRef") != old.get("roleRef"):
        yield unchangeable_role(new)
    if op.served.id in _FREEZABLE and old.get("immutable"):
        yield from _frozen(new, old)
    for part in _IMMUTABLE.get(op.served.id, ()):
        if without_nulls(new.get(part)) != without_nulls(old.get(part)):
            yield causes.invalid(part, new.get(part), _UNCHANGEABLE)
    for part in _IMMUTABLE_SPECS.get(op.served.id, ()):
        now, before = (new.get("spec") or {}).get(part), (old.get("spec") or {}).get(part)
        if without_nulls(now) != without_nulls(before):
            yield causes.invalid(f"spec.{part}", now, _UNCHANGEABLE)


def _frozen(new: Object, old: Object) -> Iterable[Cause]:
    """List what changes in a ConfigMap or Secret whose ``immutable`` is set."""
    for part in ("immutable", "data", "binaryData"):
        if (new.get(part) or {}) != (old.get(part) or {}):
            yield causes.forbidden(part, "field is immutable when `immutable` is set")
