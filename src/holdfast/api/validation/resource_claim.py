"""Validation of ResourceClaims and ResourceClaimTemplates; their specs are immutable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from holdfast.api import field_errors
from holdfast.api.decode import JsonMapping
from holdfast.api.devices import ALL, EXACT_COUNT, MAX_ALTERNATIVES
from holdfast.api.json_fields import list_at, map_at, maps_at, text_at
from holdfast.api.validation.device_names import check_fully_qualified
from holdfast.api.validation.device_parts import (
    MOST_CONFIGS,
    check_config,
    check_toleration,
)
from holdfast.api.validation.device_selectors import DEFAULT_RULES, SelectorRules, check_total_size
from holdfast.api.validation.json_fields import ItemCheck, check_list, check_set
from holdfast.api.validation.metadata import check_annotations, check_labels
from holdfast.api.validation.names import (
    check_label,
    check_required,
    check_subdomain,
)
from holdfast.runtime.errors import Cause

MOST_REQUESTS = 32
_MOST_CONSTRAINTS = 32
_MODES = (ALL, EXACT_COUNT)
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
_TEMPLATE_METADATA = ("labels", "annotations")
RequestNames = Mapping[str, frozenset[str]]
"""The names of the subrequests of each request."""


def check_claim(
    new: JsonMapping, old: JsonMapping | None, rules: SelectorRules = DEFAULT_RULES
) -> Iterable[Cause]:
    """Yield what is wrong with a new claim; the spec of a stored one cannot change."""
    return check_claim_spec(map_at(new, "spec"), rules, "spec") if old is None else ()


def check_claim_template(
    new: JsonMapping, old: JsonMapping | None, rules: SelectorRules = DEFAULT_RULES
) -> Iterator[Cause]:
    """Yield what is wrong with a new template; the spec of a stored one cannot change."""
    if old is not None:
        return
    spec = map_at(new, "spec")
    yield from _check_template_metadata(map_at(spec, "metadata"), "spec.metadata")
    yield from check_claim_spec(map_at(spec, "spec"), rules, "spec.spec")


def check_claim_spec(spec: JsonMapping, rules: SelectorRules, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the spec of a claim."""
    devices, at = map_at(spec, "devices"), f"{path}.devices"
    requests, names = maps_at(devices, "requests"), request_names(spec)
    too_large = list(check_total_size(_selectors(requests), f"{at}.requests"))
    check: ItemCheck = partial(_check_request, rules)
    yield from too_large or check_set(requests, MOST_REQUESTS, check, _name, f"{at}.requests")
    constraints = maps_at(devices, "constraints")
    check = partial(_check_constraint, names, rules.shared_devices)
    yield from check_list(constraints, _MOST_CONSTRAINTS, check, f"{at}.constraints")
    check = partial(check_claim_config, names)
    yield from check_list(maps_at(devices, "config"), MOST_CONFIGS, check, f"{at}.config")


def _selectors(requests: Iterable[JsonMapping]) -> Iterator[JsonMapping]:
    for request in requests:
        for wanted in (map_at(request, "exactly"), *maps_at(request, "firstAvailable")):
            yield from maps_at(wanted, "selectors")


def request_names(spec: JsonMapping) -> RequestNames:
    """Return the names of the requests of a claim, and of their subrequests."""
    return {
        _name(request): frozenset(map(_name, maps_at(request, "firstAvailable")))
        for request in maps_at(map_at(spec, "devices"), "requests")
    }


def _name(named: JsonMapping) -> str:
    return text_at(named, "name")


def _check_request(rules: SelectorRules, request: JsonMapping, path: str) -> Iterator[Cause]:
    yield from check_label(_name(request), f"{path}.name")
    alternatives, exactly = maps_at(request, "firstAvailable"), request.get("exactly")
    if alternatives and exactly is not None:
        yield field_errors.invalid(path, None, f"{_ONE_OF}, but multiple fields are set")
    elif alternatives:
        at = f"{path}.firstAvailable"
        check = partial(_check_alternative, rules)
        yield from check_set(alternatives, MAX_ALTERNATIVES, check, _name, at)
    elif exactly is not None:
        yield from _check_wanted(rules, exactly, f"{path}.exactly")
    else:
        yield field_errors.required(path, _ONE_OF)


def _check_alternative(
    rules: SelectorRules, alternative: JsonMapping, path: str
) -> Iterator[Cause]:
    yield from check_label(_name(alternative), f"{path}.name")
    yield from _check_wanted(rules, alternative, path)


def _check_wanted(rules: SelectorRules, wanted: JsonMapping, path: str) -> Iterator[Cause]:
    """Check the fields that an exact request and an alternative have in common."""
    name = text_at(wanted, "deviceClassName")
    yield from check_required(name, f"{path}.deviceClassName", check_subdomain)
    yield from rules.check(maps_at(wanted, "selectors"), f"{path}.selectors")
    mode, count = text_at(wanted, "allocationMode"), wanted.get("count") or 0
    if mode == ALL:
        if count:
            message = "must not be specified when allocationMode is 'All'"
            yield field_errors.invalid(f"{path}.count", count, message)
    elif mode == EXACT_COUNT:
        if count <= 0:
            yield field_errors.invalid(f"{path}.count", count, "must be greater than zero")
    else:
        yield field_errors.not_supported(f"{path}.allocationMode", mode, _MODES)
    for i, toleration in enumerate(maps_at(wanted, "tolerations")):
        yield from check_toleration(toleration, f"{path}.tolerations[{i}]")


def _check_constraint(
    names: RequestNames, may_be_distinct: bool, constraint: JsonMapping, path: str
) -> Iterator[Cause]:
    yield from check_references(names, constraint, path)
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        yield from check_fully_qualified(match, f"{path}.matchAttribute")
    elif distinct is not None:
        yield from check_fully_qualified(distinct, f"{path}.distinctAttribute")
    elif not may_be_distinct:
        yield field_errors.required(f"{path}.matchAttribute")
    else:
        message = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple '
            "fields are set"
        )
        yield field_errors.required(path, message)


def check_claim_config(names: RequestNames, config: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with configuration for some requests of a claim."""
    yield from check_references(names, config, path)
    yield from check_config(config, path)


def check_references(names: RequestNames, part: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the requests that a part of a claim refers to."""
    check = partial(check_reference, names)
    at = f"{path}.requests"
    yield from check_set(list_at(part, "requests"), MOST_REQUESTS, check, str, at)


def check_reference(names: RequestNames, reference: Any, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a reference to a request or subrequest."""
    parts = str(reference).split("/")
    if len(parts) <= 2:
        for part in parts:
            yield from check_label(part, path)
    if not _is_known(names, parts):
        yield field_errors.invalid(path, reference, _UNKNOWN_REQUEST)


def _is_known(names: RequestNames, parts: list[str]) -> bool:
    match parts:
        case [request]:
            return request in names
        case [request, alternative]:
            return alternative in names.get(request, ())
    return False


def _check_template_metadata(metadata: JsonMapping, path: str) -> Iterator[Cause]:
    """Check the metadata of the claims to create: only labels and annotations are allowed."""
    labels, annotations = (
        {name: text or "" for name, text in map_at(metadata, key).items()}
        for key in ("labels", "annotations")
    )
    yield from check_annotations(annotations, f"{path}.annotations")
    yield from check_labels(labels, f"{path}.labels")
    for key, value in metadata.items():
        if key not in _TEMPLATE_METADATA and value:
            yield field_errors.forbidden(f"{path}.{key}", "cannot be set")
