"""Validation of the requests and limits of containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from holdfast.api import field_errors, names
from holdfast.api.quantity import AmountText, Quantity
from holdfast.api.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    LONGEST_NAME,
    MEMORY,
    is_extended,
)
from holdfast.apiserver.kinds.validation.resource_quotas import check_amount, is_standard
from holdfast.errors import BadRequest, Cause
from holdfast.validation.json_fields import Raw, map_at

_NATIVE_DOMAIN = "kubernetes.io/"
Amounts = Mapping[str, AmountText]


def check_container_resources(resources: Raw, path: str) -> Iterator[Cause]:
    """Yield what is wrong with requests and limits.

    Extended resources and huge pages cannot be overcommitted: requests must equal limits.
    """
    requests, limits = map_at(resources, "requests"), map_at(resources, "limits")
    wrong = [
        *_check_list(limits, f"{path}.limits"),
        *_check_list(requests, f"{path}.requests"),
    ]
    yield from wrong
    yield from _compare(requests, limits, path)
    asked = {*requests, *limits}
    if any(map(_is_huge_page, asked)) and not asked & {CPU, MEMORY}:
        yield field_errors.forbidden(path, "HugePages require cpu or memory")


def _check_list(amounts: Amounts, path: str) -> Iterator[Cause]:
    for name, amount in amounts.items():
        at = f"{path}[{name}]"
        find = _name_errors if len(name) <= LONGEST_NAME else _name_errors.__wrapped__
        for message in find(name):
            yield field_errors.invalid(at, name, message)
        try:
            yield from check_amount(at, name, amount)
            if _is_huge_page(name) and not _is_whole(name, amount):
                message = f"{amount} is not positive integer multiple of {name}"
                yield field_errors.invalid(at, amount, message)
        except BadRequest as wrong:
            yield field_errors.invalid(at, amount, wrong.message)


@lru_cache(maxsize=1024)
def _name_errors(name: str) -> tuple[str, ...]:
    """Return why a container cannot ask for a resource of this name."""
    wrong = names.label_key(name)
    errors = [*wrong]
    if "/" not in name:
        if not wrong and not is_standard(name):
            errors.append("must be a standard resource type or fully qualified")
        if name not in (CPU, MEMORY, EPHEMERAL_STORAGE) and not _is_huge_page(name):
            errors.append("must be a standard resource for containers")
    elif _NATIVE_DOMAIN not in name and not is_extended(name):
        errors.append("doesn't follow extended resource name standard")
    return tuple(errors)


def _compare(requests: Amounts, limits: Amounts, path: str) -> Iterator[Cause]:
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
    return ("/" not in name or _NATIVE_DOMAIN in name) and not _is_huge_page(name)


def _is_huge_page(name: str) -> bool:
    return name.startswith(HUGE_PAGES_PREFIX)


def _is_whole(name: str, amount: AmountText) -> bool:
    """Return whether an amount is a multiple of the page size that a resource is named after."""
    try:
        size = Quantity.parse(name.removeprefix(HUGE_PAGES_PREFIX)).value()
    except BadRequest:
        return False
    return size > 0 and Quantity.parse(amount).value() % size == 0
