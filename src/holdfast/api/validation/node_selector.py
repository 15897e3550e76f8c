"""Validation of node selectors."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api import field_errors
from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import list_at, maps_at, text_at
from holdfast.api.node_selection import NAME_FIELD
from holdfast.api.validation.names import check_label_name, check_label_value, check_subdomain
from holdfast.runtime.errors import Cause

_UNKNOWN_OPERATOR = "not a valid selector operator"


def check_node_selector(selector: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a node selector."""
    at = f"{path}.nodeSelectorTerms"
    terms = maps_at(selector, "nodeSelectorTerms")
    if not terms:
        yield field_errors.required(at, "must have at least one node selector term")
    for i, term in enumerate(terms):
        for j, wanted in enumerate(maps_at(term, "matchExpressions")):
            yield from _check_labels(wanted, f"{at}[{i}].matchExpressions[{j}]")
        for j, wanted in enumerate(maps_at(term, "matchFields")):
            yield from _check_field(wanted, f"{at}[{i}].matchFields[{j}]")


def _check_labels(wanted: JsonMapping, path: str) -> Iterator[Cause]:
    operator, values = text_at(wanted, "operator"), list_at(wanted, "values")
    match operator:
        case "In" | "NotIn":
            if not values:
                message = "must be specified when `operator` is 'In' or 'NotIn'"
                yield field_errors.required(f"{path}.values", message)
        case "Exists" | "DoesNotExist":
            if values:
                message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield field_errors.forbidden(f"{path}.values", message)
        case "Gt" | "Lt":
            if len(values) != 1:
                message = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield field_errors.required(f"{path}.values", message)
        case _:
            yield field_errors.invalid(f"{path}.operator", operator, _UNKNOWN_OPERATOR)
    yield from check_label_name(text_at(wanted, "key"), f"{path}.key")
    for i, value in enumerate(values):
        yield from check_label_value(value, f"{path}.values[{i}]")


def _check_field(wanted: JsonMapping, path: str) -> Iterator[Cause]:
    operator, values = text_at(wanted, "operator"), list_at(wanted, "values")
    if operator not in ("In", "NotIn"):
        yield field_errors.invalid(f"{path}.operator", operator, _UNKNOWN_OPERATOR)
    elif len(values) != 1:
        message = (
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
        yield field_errors.required(f"{path}.values", message)
    key = text_at(wanted, "key")
    if key != NAME_FIELD:
        yield field_errors.invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for i, value in enumerate(values):
        yield from check_subdomain(value, f"{path}.values[{i}]")
