"""Validation of the requests and limits of containers and of whole pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from holdfast.api import field_errors, names
from holdfast.api.decode import JsonMapping, convert_object
from holdfast.api.json_fields import map_at
from holdfast.api.pod import Pod
from holdfast.api.quantity import AmountText, Quantity
from holdfast.api.requests import (
    container_limit_nanos,
    container_request_nanos,
    nanos,
    nanos_text,
)
from holdfast.api.resource_names import (
    CPU,
    HUGE_PAGES_PREFIX,
    LONGEST_NAME,
    MEMORY,
    NATIVE_DOMAIN,
    container_name_error,
    is_pod_level,
)
from holdfast.runtime.errors import BadRequest, Cause
from holdfast.server.kinds.validation.resource_quotas import check_amount, is_standard

AmountTexts = Mapping[str, AmountText]
CheckName = Callable[[str, str], Iterator[Cause]]
POD_LEVEL = (CPU, HUGE_PAGES_PREFIX, MEMORY)
"""The resources that a whole pod can request, as in upstream's message."""


def check_container_resources(resources: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the requests and limits of a container."""
    return _check_resources(resources, path, _check_name)


def check_pod_resources(spec: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the requests and limits of a whole pod."""
    resources, at = spec.get("resources"), f"{path}.resources"
    if not isinstance(resources, dict):
        return
    if map_at(spec, "os").get("name") == "windows":
        yield field_errors.forbidden(at, "may not be set for a windows pod")
        return
    if resources.get("claims") is not None:
        message = "claims may not be set for Resources at pod-level"
        yield field_errors.forbidden(f"{at}.claims", message)
    yield from _check_resources(resources, at, _check_pod_level_name)
    try:
        yield from _check_sums(resources, convert_object({"spec": spec}, Pod), at)
    except BadRequest:
        return  # a malformed amount is reported already


def _check_sums(resources: JsonMapping, pod: Pod, path: str) -> Iterator[Cause]:
    """Compare the amounts of the containers with those of the pod."""
    requests, limits = map_at(resources, "requests"), map_at(resources, "limits")
    huge_limits = {n: v for n, v in container_limit_nanos(pod).items() if _is_huge_page(n)}
    for part, own, sums in (
        ("requests", requests, container_request_nanos(pod)),
        ("limits", limits, huge_limits),
    ):
        for name, amount in sums.items():
            if name in own and amount > nanos(own[name]):
                total = nanos_text(name, amount)
                message = f"must be greater than or equal to aggregate container {part} of {total}"
                yield field_errors.invalid(f"{path}.{part}[{name}]", own[name], message)
    for i, container in enumerate(pod.spec.containers):
        for name, text in container.resources.limits.items():
            if name in limits and nanos(text) > nanos(limits[name]):
                at = f"{path}.containers[{i}][{name}].limits"
                message = f"must be less than or equal to pod limits of {limits[name]}"
                yield field_errors.invalid(at, text, message)


def _check_resources(resources: JsonMapping, path: str, check_name: CheckName) -> Iterator[Cause]:
    """Yield what is wrong with requests and limits.

    Extended resources and huge pages cannot be overcommitted: requests must equal limits.
    """
    requests, limits = map_at(resources, "requests"), map_at(resources, "limits")
    yield from _check_list(limits, f"{path}.limits", check_name)
    yield from _check_list(requests, f"{path}.requests", check_name)
    yield from _compare(requests, limits, path)
    asked = {*requests, *limits}
    if any(map(_is_huge_page, asked)) and not asked & {CPU, MEMORY}:
        yield field_errors.forbidden(path, "HugePages require cpu or memory")


def _check_list(amounts: AmountTexts, path: str, check_name: CheckName) -> Iterator[Cause]:
    for name, amount in amounts.items():
        at = f"{path}[{name}]"
        yield from check_name(name, at)
        try:
            yield from check_amount(at, name, amount)
            if _is_huge_page(name) and not _is_whole(name, amount):
                message = f"{amount} is not positive integer multiple of {name}"
                yield field_errors.invalid(at, amount, message)
        except BadRequest as wrong:
            yield field_errors.invalid(at, amount, wrong.message)


def _check_name(name: str, path: str) -> Iterator[Cause]:
    find = _name_errors if len(name) <= LONGEST_NAME else _name_errors.__wrapped__
    for message in find(name):
        yield field_errors.invalid(path, name, message)


def _check_pod_level_name(name: str, path: str) -> Iterator[Cause]:
    errors = _general_name_errors(name)
    for message in errors:
        yield field_errors.invalid(path, name, message)
    if not errors and not is_pod_level(name):
        yield field_errors.not_supported(path, name, POD_LEVEL)


def _general_name_errors(name: str) -> list[str]:
    wrong = [*names.label_key(name)]
    if not wrong and "/" not in name and not is_standard(name):
        wrong.append("must be a standard resource type or fully qualified")
    return wrong


@lru_cache(maxsize=1024)
def _name_errors(name: str) -> tuple[str, ...]:
    """Return why a container cannot ask for a resource of this name."""
    errors = _general_name_errors(name)
    if error := container_name_error(name):
        errors.append(error)
    return tuple(errors)


def _compare(requests: AmountTexts, limits: AmountTexts, path: str) -> Iterator[Cause]:
    for name, amount in requests.items():
        if name not in limits:
            if not _may_be_overcommitted(name):
                message = "Limit must be set for non overcommitable resources"
                yield field_errors.required(f"{path}.limits", message)
            continue
        if amount == limits[name]:
            continue
        try:
            order = Quantity.parse(amount).cmp(Quantity.parse(limits[name]))
        except BadRequest:
            continue  # is reported already
        if order and not _may_be_overcommitted(name):
            message = f"must be equal to {name} limit of {limits[name]}"
            yield field_errors.invalid(f"{path}.requests", amount, message)
        elif order > 0:
            message = f"must be less than or equal to {name} limit of {limits[name]}"
            yield field_errors.invalid(f"{path}.requests", amount, message)


def _may_be_overcommitted(name: str) -> bool:
    return ("/" not in name or NATIVE_DOMAIN in name) and not _is_huge_page(name)


def _is_huge_page(name: str) -> bool:
    return name.startswith(HUGE_PAGES_PREFIX)


def _is_whole(name: str, amount: AmountText) -> bool:
    """Return whether an amount is a multiple of the page size that a resource is named after."""
    try:
        size = Quantity.parse(name.removeprefix(HUGE_PAGES_PREFIX)).value()
    except BadRequest:
        return False
    return size > 0 and Quantity.parse(amount).value() % size == 0
