"""The kind of ``policy``: PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.api import field_errors, scheme
from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.validation import list_limits
from holdfast.api.validation.counting import tree_of
from holdfast.runtime.errors import BadRequest, Cause
from holdfast.server.descriptor import KindDescriptor, new_object_check
from holdfast.server.kinds.printers import workloads
from holdfast.server.kinds.validation.int_or_percent import check_int_or_percent


def check_budget(budget: JsonObject) -> Iterable[Cause]:
    """Yield what is wrong with a PodDisruptionBudget."""
    spec = budget.get("spec") or {}
    yield from _check_selector(spec.get("selector"), "spec.selector")
    for name in ("minAvailable", "maxUnavailable"):
        if spec.get(name) is not None:
            yield from check_int_or_percent(spec[name], f"spec.{name}", most_percent=100)


def _check_selector(selector: Any, path: str) -> Iterable[Cause]:
    try:
        from_selector(None if selector is None else convert_object(selector, LabelSelector))
    except BadRequest as wrong:
        yield field_errors.invalid(path, selector, wrong.message)


KINDS = (
    KindDescriptor(
        scheme.DISRUPTION_BUDGETS,
        list_limits=tree_of(list_limits.DISRUPTION_BUDGET),
        checks=(new_object_check(check_budget),),
        printer=workloads.DISRUPTION_BUDGET,
        has_generation=True,
        requires_resource_version=True,
    ),
)
