"""What a workload must say: which pods are its own, and how to make more of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.api import causes
from holdfast.api.decode import convert_object
from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.apiserver.pod_validation import check_pod_spec
from holdfast.errors import BadRequest, Cause

Object = dict[str, Any]


def check_workload(obj: Object) -> Iterable[Cause]:
    """List what is wrong with a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        yield causes.required("spec")
        return
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        words = "must be greater than or equal to 0"
        yield causes.invalid("spec.replicas", replicas, words)
    selector, template = spec.get("selector"), spec.get("template") or {}
    if not selector:
        yield causes.required("spec.selector")
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    yield from _own(selector, labels)
    yield from check_pod_spec(template.get("spec"), "spec.template.spec")


def _own(selector: Any, labels: dict[str, str]) -> Iterable[Cause]:
    try:
        compiled = from_selector(convert_object(selector, LabelSelector))
    except (BadRequest, msgspec.ValidationError) as wrong:
        yield causes.invalid("spec.selector", selector, str(wrong))
        return
    if compiled.everything:
        words = "empty selector is invalid for deployment"
        yield causes.invalid("spec.selector", selector, words)
    elif not compiled.matches(labels):
        words = "`selector` does not match template `labels`"
        yield causes.invalid("spec.template.metadata.labels", labels, words)
