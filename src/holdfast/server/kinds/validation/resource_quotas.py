"""Validate ResourceQuotas: keys, amounts, and which scopes go with which keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.api import field_errors, names
from holdfast.api.decode import JsonObject
from holdfast.api.quantity import AmountText, Quantity
from holdfast.api.resource_names import PODS, is_extended
from holdfast.runtime.errors import Cause
from holdfast.state.quota.amounts import (
    COUNTS,
    CPU_AND_MEMORY,
    STORAGE,
    VOLUME_CLAIMS,
    is_standard_key,
)

_OF_PODS = CPU_AND_MEMORY | {PODS}
_KEYS_OF_SCOPE = {
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "NotBestEffort": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "BestEffort": frozenset({PODS}),
    "VolumeAttributesClass": frozenset({VOLUME_CLAIMS, STORAGE}),
}
"""The standard keys that each scope may be combined with."""
_EXISTS_ONLY = frozenset(_KEYS_OF_SCOPE) - {"PriorityClass", "VolumeAttributesClass"}
_OPPOSITES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_UNSUPPORTED, _WRONG_KEY = "unsupported scope", "unsupported scope applied to resource"
_CONFLICTING = "conflicting scopes"


def check_quota(new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """Yield what is wrong with a quota; the scopes of a stored one cannot change."""
    spec = new.get("spec") or {}
    yield from _check_amounts("spec.hard", spec.get("hard") or {})
    yield from _check_scopes(spec)
    yield from _check_selector(spec)
    if old is not None:
        scopes = spec.get("scopes") or []
        if set(scopes) != set((old.get("spec") or {}).get("scopes") or []):
            yield field_errors.invalid("spec.scopes", scopes, "field is immutable")


def check_quota_status(quota: JsonObject) -> Iterable[Cause]:
    """Yield what is wrong with the status of a quota.

    Values that the status has from the spec are accepted: an older server may have stored them.
    """
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    accepted = spec.get("hard") or {}
    for part in ("hard", "used"):
        for key, text in (status.get(part) or {}).items():
            at = f"status.{part}[{key}]"
            if key not in accepted:
                yield from _check_key(at, key)
            if accepted.get(key) != text:
                yield from check_amount(at, key, text)


def _check_amounts(path: str, amounts: Mapping[str, Any]) -> Iterable[Cause]:
    for key, text in amounts.items():
        yield from _check_key(f"{path}[{key}]", key)
        yield from check_amount(f"{path}[{key}]", key, text)


def check_amount(at: str, key: str, text: AmountText) -> Iterable[Cause]:
    """Yield what is wrong with the amount of a resource."""
    amount = Quantity.parse(text)
    if amount < Quantity(0):
        yield field_errors.invalid(at, text, "must be greater than or equal to 0")
    if (key in COUNTS or is_extended(key)) and amount.scaled(-3) % 1000:
        yield field_errors.invalid(at, text, "must be an integer")


def _check_key(at: str, key: str) -> Iterable[Cause]:
    wrong = names.label_key(key)
    for message in wrong:
        yield field_errors.invalid(at, key, message)
    if "/" in key or is_standard_key(key):
        return
    if not wrong and not is_standard(key):
        message = "must be a standard resource type or fully qualified"
        yield field_errors.invalid(at, key, message)
    yield field_errors.invalid(at, key, "must be a standard resource for quota")


def is_standard(key: str) -> bool:
    """Return whether this is the name of a standard resource or quota, which has no domain."""
    return key == "storage" or is_standard_key(key)


def _fits(scope: str, key: str) -> bool:
    return not is_standard_key(key) or key in _KEYS_OF_SCOPE.get(scope, (key,))


def _check_scopes(spec: JsonObject) -> Iterable[Cause]:
    scopes, at = spec.get("scopes") or [], "spec.scopes"
    for scope in scopes:
        if scope not in _KEYS_OF_SCOPE:
            yield field_errors.invalid(at, scopes, _UNSUPPORTED)
        for key in sorted(spec.get("hard") or {}):
            if not _fits(scope, key):
                yield field_errors.invalid(at, scopes, _WRONG_KEY)
    yield from _conflicts(at, scopes, scopes)


def _conflicts(at: str, scopes: Iterable[str], shown: Any) -> Iterable[Cause]:
    scope_set = set(scopes)
    for pair in _OPPOSITES:
        if scope_set.issuperset(pair):
            yield field_errors.invalid(at, shown, _CONFLICTING)


def _check_selector(spec: JsonObject) -> Iterable[Cause]:
    at = "spec.scopeSelector.matchExpressions"
    requirements = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    for requirement in requirements:
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        if scope not in _KEYS_OF_SCOPE:
            yield field_errors.invalid(f"{at}.scopeName", scope, _UNSUPPORTED)
        for key in sorted(spec.get("hard") or {}):
            if not _fits(scope, key):
                yield field_errors.invalid(at, _as_shown(requirements), _WRONG_KEY)
        if scope in _EXISTS_ONLY and operator != "Exists":
            message = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            yield field_errors.invalid(f"{at}.operator", operator, message)
        yield from _check_operator(at, operator, requirement.get("values") or [])
    yield from _conflicts(
        at, (each.get("scopeName", "") for each in requirements), spec.get("scopes")
    )


def _as_shown(requirements: list[JsonObject]) -> JsonObject:
    """Return a selector as upstream's messages show it: with the field names of Go."""
    shown = [
        {
            "ScopeName": each.get("scopeName", ""),
            "Operator": each.get("operator", ""),
            "Values": each.get("values"),
        }
        for each in requirements
    ]
    return {"MatchExpressions": shown}


def _check_operator(at: str, operator: str, values: list[str]) -> Iterable[Cause]:
    if operator in ("In", "NotIn"):
        if not values:
            message = (
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
            yield field_errors.required(f"{at}.values", message)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            message = (
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            )
            yield field_errors.invalid(f"{at}.values", values, message)
    else:
        yield field_errors.invalid(f"{at}.operator", operator, "not a valid selector operator")


def warn_of_limits(quota: JsonObject) -> Iterable[str]:
    """Yield a warning for each limit that is below the quota of requests."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    for name in ("cpu", "memory", "storage", "ephemeral-storage"):
        request, limit = f"requests.{name}", f"limits.{name}"
        if request not in hard and name in ("cpu", "memory"):
            request = name
        if request in hard and limit in hard:
            asked, most = Quantity.parse(hard[request]), Quantity.parse(hard[limit])
            if asked > most:
                yield (f"ResourceQuota {request} ({asked}) should be less than {limit} ({most})")
