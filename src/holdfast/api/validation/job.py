"""The spec of a Job: completions by index, failure policy, success policy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from holdfast.api import field_errors, names
from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import list_at, map_at, maps_at, text_at
from holdfast.api.validation.json_fields import check_distinct
from holdfast.api.validation.names import check_label_name
from holdfast.api.validation.template import NOT_NEGATIVE
from holdfast.runtime.errors import BadRequest, Cause

INDEXED = "Indexed"
_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
    "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_MODES = ("NonIndexed", INDEXED)
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_NEEDS_INDEXES = "requires indexed completion mode"
_MOST_RULES = _MOST_CONDITIONS = 20
_MOST_VALUES = 255
_MOST_INDEXES = 100_000
_MOST_OF_MANY = 10_000
"""The most pods at once, and failed indexes, of a Job with more than ``_MOST_INDEXES``."""
_LONGEST_MANAGER = 63
_LONGEST_INDEXES = 64 * 1024
_MOST_DIGITS = 18
_matches_number = re.compile(r"[-+]?[0-9]+").fullmatch
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_matches_path = re.compile(_PATH).fullmatch


def check_job_spec(spec: JsonMapping, path: str) -> Iterable[Cause]:
    """Yield what is wrong with the spec of a Job, without its pod template."""
    for part in _COUNTS:
        if (count := spec.get(part)) and count < 0:
            yield field_errors.invalid(f"{path}.{part}", count, NOT_NEGATIVE)
    mode = spec.get("completionMode")
    if mode is not None and mode not in _MODES:
        yield field_errors.not_supported(f"{path}.completionMode", mode, _MODES)
    yield from (_check_indexed if mode == INDEXED else _check_not_indexed)(spec, path)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        detail = "when maxFailedIndexes is specified"
        yield field_errors.required(f"{path}.backoffLimitPerIndex", detail)
    if (failure := spec.get("podFailurePolicy")) is not None:
        yield from _check_failure_policy(spec, failure, path)
    yield from _check_replacement(spec, path)
    if (manager := spec.get("managedBy")) is not None:
        yield from _check_manager(manager, f"{path}.managedBy")


def check_host_names(job: JsonMapping) -> Iterable[Cause]:
    """Yield an error if the host names of an indexed Job's pods would be too long."""
    spec, name = map_at(job, "spec"), text_at(map_at(job, "metadata"), "name")
    count = spec.get("completions") or 0
    if spec.get("completionMode") != INDEXED or count <= 0 or not name:
        return
    host = f"{name}-{count - 1}"
    if names.dns_label(host):
        detail = f"will not able to create pod with invalid DNS label: {host}"
        yield field_errors.invalid("metadata.name", name, detail)


def _check_indexed(spec: JsonMapping, path: str) -> Iterable[Cause]:
    completions, parallel = spec.get("completions"), spec.get("parallelism") or 0
    if completions is None:
        yield field_errors.required(f"{path}.completions", "when completion mode is Indexed")
    if parallel > _MOST_INDEXES:
        detail = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        yield field_errors.invalid(f"{path}.parallelism", parallel, detail)
    failed, at = spec.get("maxFailedIndexes"), f"{path}.maxFailedIndexes"
    if failed is not None and failed > _MOST_INDEXES:
        yield field_errors.invalid(at, failed, f"must be less than or equal to {_MOST_INDEXES}")
    if failed is not None and completions is not None and failed > completions:
        yield field_errors.invalid(at, failed, "must be less than or equal to completions")
    if (completions or 0) > _MOST_INDEXES and spec.get("backoffLimitPerIndex") is not None:
        detail = (
            f"must be less than or equal to {_MOST_OF_MANY} when completions are above "
            f"{_MOST_INDEXES} and used with backoff limit per index"
        )
        if failed is None:
            needed = f"must be specified when completions is above {_MOST_INDEXES}"
            yield field_errors.required(at, needed)
        elif failed > _MOST_OF_MANY:
            yield field_errors.invalid(at, failed, detail)
        if parallel > _MOST_OF_MANY:
            yield field_errors.invalid(f"{path}.parallelism", parallel, detail)
    if (success := spec.get("successPolicy")) is not None:
        yield from _check_success_policy(success, completions or 0, f"{path}.successPolicy")


def _check_not_indexed(spec: JsonMapping, path: str) -> Iterable[Cause]:
    for part in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if (value := spec.get(part)) is not None:
            yield field_errors.invalid(f"{path}.{part}", value, _NEEDS_INDEXES)
    if (success := spec.get("successPolicy")) is not None:
        parts = ("succeededIndexes", "succeededCount")
        rules = [
            {part[0].upper() + part[1:]: rule.get(part) for part in parts}
            for rule in maps_at(success, "rules")
        ]
        shown = {"Rules": None if success.get("rules") is None else rules}
        yield field_errors.invalid(f"{path}.successPolicy", shown, _NEEDS_INDEXES)


def _check_failure_policy(spec: JsonMapping, policy: JsonMapping, path: str) -> Iterable[Cause]:
    pod = map_at(map_at(spec, "template"), "spec")
    restart = text_at(pod, "restartPolicy")
    if restart != "Never":
        at = f"{path}.template.spec.restartPolicy"
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        yield field_errors.invalid(at, restart, detail)
    rules, at = maps_at(policy, "rules"), f"{path}.podFailurePolicy.rules"
    if len(rules) > _MOST_RULES:
        yield field_errors.too_many(at, len(rules), _MOST_RULES)
    containers = {
        text_at(each, "name")
        for part in ("initContainers", "containers")
        for each in maps_at(pod, part)
    }
    for i, rule in enumerate(rules):
        yield from _check_failure_rule(spec, rule, containers, f"{at}[{i}]")


def _check_failure_rule(
    spec: JsonMapping, rule: JsonMapping, containers: set[str], path: str
) -> Iterable[Cause]:
    action = text_at(rule, "action")
    yield from _check_choice(action, _ACTIONS, f"{path}.action")
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        detail = "requires the backoffLimitPerIndex to be set"
        yield field_errors.invalid(f"{path}.action", action, detail)
    codes, conditions = rule.get("onExitCodes"), maps_at(rule, "onPodConditions")
    if codes is not None:
        yield from _check_exit_codes(codes, containers, f"{path}.onExitCodes")
    at = f"{path}.onPodConditions"
    if len(conditions) > _MOST_CONDITIONS:
        yield field_errors.too_many(at, len(conditions), _MOST_CONDITIONS)
    for i, condition in enumerate(conditions):
        yield from check_label_name(text_at(condition, "type"), f"{at}[{i}].type")
        yield from _check_choice(text_at(condition, "status"), _STATUSES, f"{at}[{i}].status")
    if codes is not None and conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield field_errors.invalid_field(path, detail)
    if codes is None and not conditions:
        detail = "specifying one of OnExitCodes and OnPodConditions is required"
        yield field_errors.invalid_field(path, detail)


def _check_exit_codes(codes: JsonMapping, containers: set[str], path: str) -> Iterable[Cause]:
    operator, values = text_at(codes, "operator"), list_at(codes, "values")
    yield from _check_choice(operator, _OPERATORS, f"{path}.operator")
    name = codes.get("containerName")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield field_errors.invalid(f"{path}.containerName", name, detail)
    at = f"{path}.values"
    if not values:
        yield field_errors.invalid(at, [], "at least one value is required")
    elif len(values) > _MOST_VALUES:
        yield field_errors.too_many(at, len(values), _MOST_VALUES)
    if any(one > other for one, other in pairwise(values)):
        yield field_errors.invalid(at, values, "must be ordered")
    yield from check_distinct(values, at)
    if operator == "In":
        for i, value in enumerate(values):
            if value == 0:
                detail = "must not be 0 for the In operator"
                yield field_errors.invalid(f"{at}[{i}]", value, detail)


def _check_choice(text: str, known: tuple[str, ...], path: str) -> Iterable[Cause]:
    """Check a required word; the error for a missing one has Go's format of lists."""
    if not text:
        shown = " ".join(f'"{word}"' for word in known)
        yield field_errors.required(path, f"valid values: [{shown}]")
    elif text not in known:
        yield field_errors.not_supported(path, text, known)


def _check_success_policy(policy: JsonMapping, completions: int, path: str) -> Iterable[Cause]:
    rules, at = maps_at(policy, "rules"), f"{path}.rules"
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield field_errors.required(at, detail)
    if len(rules) > _MOST_RULES:
        yield field_errors.too_many(at, len(rules), _MOST_RULES)
    for i, rule in enumerate(rules):
        yield from _check_success_rule(rule, completions, f"{at}[{i}]")


def _check_success_rule(rule: JsonMapping, completions: int, path: str) -> Iterable[Cause]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        yield field_errors.required(path, detail)
    total = 0
    if indexes is not None:
        if len(indexes.encode()) > _LONGEST_INDEXES:
            yield field_errors.too_long(f"{path}.succeededIndexes", _LONGEST_INDEXES)
        try:
            total = count_indexes(indexes, completions)
        except BadRequest as wrong:
            detail = f"error parsing succeededIndexes: {wrong.message}"
            yield field_errors.invalid(f"{path}.succeededIndexes", indexes, detail)
    if count is None:
        return
    at = f"{path}.succeededCount"
    if count < 0:
        yield field_errors.invalid(at, count, NOT_NEGATIVE)
    most = f"must be less than or equal to {completions} (the number of specified completions)"
    if count > completions:
        yield field_errors.invalid(at, count, most)
    if indexes is not None and count > total:
        of = "the number of indexes in the specified succeededIndexes field"
        yield field_errors.invalid(at, count, f"must be less than or equal to {total} ({of})")


def count_indexes(text: str, completions: int) -> int:
    """Count the indexes in a text such as ``0,2-4``; BadRequest says what is wrong with it.

    >>> count_indexes("0,2-4", 5), count_indexes("", 5)
    (4, 0)
    """
    total, last = 0, -1
    for fragment in text.split(",") if text else ():
        bounds = fragment.split("-")
        if len(bounds) > 2:
            raise BadRequest(
                f'the fragment "{fragment}" violates the requirement that an index interval can '
                "have at most two parts separated by '-'"
            )
        first = last_of_fragment = _index(bounds[0], last, completions)
        if len(bounds) == 2:
            last_of_fragment = _index(bounds[1], first, completions)
        total, last = total + last_of_fragment - first + 1, last_of_fragment
    return total


def _index(text: str, previous: int, completions: int) -> int:
    if not _matches_number(text) or len(text.lstrip("+-0")) > _MOST_DIGITS:
        raise BadRequest(f'cannot convert string to integer for index: "{text}"')
    index = int(text)
    if index >= completions:
        raise BadRequest(f'too large index: "{text}"')
    if index <= previous:
        raise BadRequest(f"non-increasing order, previous: {previous}, current: {index}")
    return index


def _check_replacement(spec: JsonMapping, path: str) -> Iterable[Cause]:
    policy = spec.get("podReplacementPolicy")
    known = _REPLACEMENTS if spec.get("podFailurePolicy") is None else _REPLACEMENTS[:1]
    if policy is not None and policy not in known:
        yield field_errors.not_supported(f"{path}.podReplacementPolicy", policy, known)


def _check_manager(text: Any, path: str) -> Iterable[Cause]:
    """Check the name of another controller: a domain, a slash and a path."""
    domain, slash, rest = text.partition("/")
    if not text:
        yield field_errors.required(path)
    elif not slash or not domain or not rest:
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield field_errors.invalid(path, text, detail)
    else:
        for problem in names.dns_subdomain(domain):
            yield field_errors.invalid(path, domain, problem)
        if not _matches_path(rest):
            detail = f"Invalid path (regex used for validation is '{_PATH}')"
            yield field_errors.invalid(path, rest, detail)
    if len(text.encode()) > _LONGEST_MANAGER:
        yield field_errors.too_long(path, _LONGEST_MANAGER)
