"""Validation of the claims in the spec and the status of a pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.api import field_errors
from holdfast.api.classic_dra.validation import (
    check_classic_source,
    check_entry_count,
    check_inline_names,
)
from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import map_at, maps_at, text_at
from holdfast.api.validation.names import check_label, check_subdomain
from holdfast.api.validation.ratcheting import ratcheting
from holdfast.runtime.errors import Cause

MIRROR_POD = "kubernetes.io/config.mirror"
_CLAIM, _TEMPLATE = "resourceClaimName", "resourceClaimTemplateName"
_NOT_IN_SPEC = "must be one of the names in pod.spec.resourceClaims"


def check_pod_claims(spec: JsonMapping, path: str, *, is_static: bool = False) -> Iterator[Cause]:
    """Yield what is wrong with the claims of a pod and of its containers."""
    claims = maps_at(spec, "resourceClaims")
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        if is_static:
            yield field_errors.forbidden("", "static pods do not support resource claims")
        else:
            yield from _check_claim(claim, seen, f"{path}.resourceClaims[{i}]")
    yield from check_entry_count(spec, path)
    known = {
        name: claim.get("claim") is not None for claim in claims if (name := text_at(claim, "name"))
    }
    for part in ("initContainers", "containers"):
        for i, container in enumerate(maps_at(spec, part)):
            if isinstance(container, dict) and (resources := container.get("resources")):
                at = f"{path}.{part}[{i}].resources.claims"
                yield from _check_uses(maps_at(resources, "claims"), known, at)
    of_pod = maps_at(map_at(spec, "resources"), "claims")
    yield from _check_uses(of_pod, known, f"{path}.resources.claims")


def _check_claim(claim: JsonMapping, seen: set[str], path: str) -> Iterator[Cause]:
    name = text_at(claim, "name")
    if not name:
        yield field_errors.required(f"{path}.name")
    elif name in seen:
        yield field_errors.duplicate(f"{path}.name", name)
    else:
        seen.add(name)
        yield from check_label(name, f"{path}.name")
    given = [key for key in (_CLAIM, _TEMPLATE) if claim.get(key) is not None]
    if claim.get("claim") is not None:
        if given:
            message = f"`claim` may not be specified together with `{given[0]}`"
            yield field_errors.invalid(path, claim, message)
        yield from check_classic_source(map_at(claim, "claim"), f"{path}.claim")
    elif len(given) == 2:
        message = f"at most one of `{_CLAIM}` or `{_TEMPLATE}` may be specified"
        yield field_errors.invalid(path, claim, message)
    elif not given:
        message = f"must specify one of: `{_CLAIM}`, `{_TEMPLATE}`"
        yield field_errors.invalid(path, claim, message)
    for key in given:
        yield from check_subdomain(claim[key], f"{path}.{key}")


def check_claim_names(pod: JsonMapping) -> Iterator[Cause]:
    """Yield the claims that are created for a pod with names that no object can have.

    Names of structured claims are generated, so that they are valid; those of classic ones are not.
    """
    yield from check_inline_names(pod)


def _check_uses(uses: Sequence[Any], known: Mapping[str, bool], path: str) -> Iterator[Cause]:
    """Check the claims of a container: a request is used once, alone or with its claim.

    ``known`` tells for each claim whether it is a classic one, which has no requests.
    """
    whole: set[str] = set()
    requests: dict[str, set[str]] = {}
    for i, use in enumerate(uses):
        name, request, at = text_at(use, "name"), text_at(use, "request"), f"{path}[{i}]"
        if not name:
            yield field_errors.required(at)
            continue
        used = requests.setdefault(name, set())
        if name in whole:
            yield field_errors.duplicate(at, name)
        elif request:
            yield from check_label(request, f"{at}.request")
            if request in used:
                yield field_errors.duplicate(at, f"{name}/{request}")
            used.add(request)
        else:
            for _ in used:
                yield field_errors.duplicate(at, name)
            whole.add(name)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            yield field_errors.not_found(at, name, _NOT_IN_SPEC + listed)
        elif request and known[name]:
            yield field_errors.forbidden(f"{at}.request", "a classic claim has no requests")


def _check_status(pod: JsonMapping) -> Iterator[Cause]:
    spec, status = map_at(pod, "spec"), map_at(pod, "status")
    yield from _check_claim_statuses(spec, maps_at(status, "resourceClaimStatuses"))
    if (special := status.get("extendedResourceClaimStatus")) is not None:
        yield from _check_special_claim(spec, special, "status.extendedResourceClaimStatus")


check_pod_claim_status = ratcheting(_check_status)
"""Yield what is wrong with the claims in the status of a pod and was not wrong before."""


def _check_claim_statuses(spec: JsonMapping, statuses: Sequence[Any]) -> Iterator[Cause]:
    known = {text_at(claim, "name") for claim in maps_at(spec, "resourceClaims")}
    seen: set[str] = set()
    for i, status in enumerate(statuses):
        name, at = text_at(status, "name"), f"status.resourceClaimStatuses[{i}]"
        if name not in known:
            message = "must match the name of an entry in `spec.resourceClaims`"
            yield field_errors.invalid(f"{at}.name", name, message)
        if name in seen:
            yield field_errors.duplicate(f"{at}.name", name)
        seen.add(name)
        if (claim := status.get(_CLAIM)) is not None:
            yield from check_subdomain(claim, f"{at}.{_CLAIM}")


def _check_special_claim(spec: JsonMapping, special: JsonMapping, path: str) -> Iterator[Cause]:
    """Check the status of the claim that the scheduler made for extended resources."""
    requested = {
        text_at(container, "name"): map_at(map_at(container, "resources"), "requests")
        for part in ("initContainers", "containers")
        for container in maps_at(spec, part)
    }
    mappings, at = maps_at(special, "requestMappings"), f"{path}.requestMappings"
    if not mappings:
        yield field_errors.required(at, "at least one request mapping is required")
    seen: set[tuple[str, ...]] = set()
    for i, mapping in enumerate(mappings):
        keys = ("containerName", "resourceName", "requestName")
        container, resource, request = triple = tuple(text_at(mapping, key) for key in keys)
        if container not in requested:
            message = "must match the name of an entry in spec.initContainers.name or "
            message += "spec.containers.name"
            yield field_errors.invalid(f"{at}[{i}].containerName", container, message)
        elif resource not in requested[container]:
            message = (
                "must match the extended resource name of an entry in "
                "spec.initContainers.resources.requests or spec.containers.resources.requests"
            )
            yield field_errors.invalid(f"{at}[{i}].resourceName", resource, message)
        yield from check_label(request, f"{path}.requestName")
        if triple in seen:
            for key, value in zip(keys, triple, strict=True):
                yield field_errors.duplicate(f"{at}[{i}].{key}", value)
        seen.add(triple)
    if name := text_at(special, _CLAIM):
        yield from check_subdomain(name, f"{path}.{_CLAIM}")
    else:
        yield field_errors.required(f"{path}.{_CLAIM}")
