"""Check a write against the quotas of its namespace, count usage again, and find new room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from holdfast.api.pod import ResourceAmounts
from holdfast.api.resource_quota import ResourceQuota
from holdfast.runtime.errors import BadRequest
from holdfast.state.quota.amounts import (
    ONE,
    QuotaUsage,
    add_usage,
    growth,
    parse_amounts,
    show,
    to_texts,
)
from holdfast.state.quota.evaluators import Evaluator, T
from holdfast.state.quota.usage import Lookups


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """Why a write is refused, in upstream's words."""

    message: str


@dataclass(frozen=True, slots=True)
class Charge:
    """The usage of a quota after a write."""

    quota: ResourceQuota
    used: dict[str, str]


def charge_write(
    quotas: Sequence[ResourceQuota],
    evaluator: Evaluator[T],
    new: T,
    old: T | None,
    lookups: Lookups,
    *,
    enforce: bool = True,
) -> tuple[Charge, ...] | QuotaRefusal:
    """Return the usage of each quota that a write changes, or why the write is refused.

    The limits are those of the status: a quota is enforced once it was counted. ``enforce`` is
    False for writes of the status, which are charged but never refused.
    """
    matching = []
    for quota in quotas:
        keys = [key for key in quota.status.hard if evaluator.tracks(key)]
        if not keys or not evaluator.matches(quota, new):
            continue
        if lacking := evaluator.missing(new, keys):
            return QuotaRefusal(f"failed quota: {quota.name}: {lacking}")
        if any(key not in quota.status.used for key in keys):
            shown = ",".join(sorted(keys))
            return QuotaRefusal(f"status unknown for quota: {quota.name}, resources: {shown}")
        matching.append(quota)
    if not matching:
        return ()
    usage = evaluator.usage(new, lookups)
    if negative := sorted(key for key, amount in usage.items() if amount.digits < 0):
        return QuotaRefusal(f"quota usage is negative for resource(s): {','.join(negative)}")
    added = growth(usage, {})
    grown = growth(usage, evaluator.usage(old, lookups)) if old is not None else added
    charges = []
    for quota in matching:
        counted = old is not None and evaluator.matches(quota, old)
        result = _charge(quota, grown if counted else added, enforce)
        if isinstance(result, QuotaRefusal):
            return result
        if result is not None:
            charges.append(result)
    return tuple(charges)


def _charge(quota: ResourceQuota, grown: QuotaUsage, enforce: bool) -> Charge | QuotaRefusal | None:
    hard, used = parse_amounts(quota.status.hard), parse_amounts(quota.status.used)
    requested = {key: amount for key, amount in grown.items() if key in hard}
    if not requested:
        return None
    after = dict(used)
    add_usage(after, requested)
    exceeded = [key for key in requested if after[key] > hard[key]]
    if exceeded and enforce:
        return QuotaRefusal(
            f"exceeded quota: {quota.name}, requested: {show(requested, exceeded)}, "
            f"used: {show(used, exceeded)}, limited: {show(hard, exceeded)}"
        )
    return Charge(quota, to_texts(after))


def count_usage(
    quota: ResourceQuota, evaluator: Evaluator[T], objects: Iterable[T], lookups: Lookups
) -> QuotaUsage:
    """Return what objects of one resource charge on the keys of ``spec.hard``."""
    total: QuotaUsage = {}
    for obj in objects:
        usage = _usage_in(quota, evaluator, obj, lookups)
        add_usage(total, {key: usage[key] for key in usage if key in quota.spec.hard})
    return total


def _usage_in(
    quota: ResourceQuota, evaluator: Evaluator[T], obj: T, lookups: Lookups
) -> QuotaUsage:
    """Return what an object charges to a quota; a malformed one counts only as an object."""
    try:
        return evaluator.usage(obj, lookups) if evaluator.matches(quota, obj) else {}
    except BadRequest:
        return {} if quota.requirements else {evaluator.count_key: ONE}


def may_have_room(
    old: ResourceQuota | None,
    new: ResourceQuota | None,
    concerns: Callable[[str], bool] = lambda _key: True,
) -> bool:
    """Return whether a quota has other limits than before, or less of them is used.

    Only keys that ``concerns`` selects count. A quota that is added or deleted may have room.
    """
    if old is None or new is None:
        return True
    if old.spec.scopes != new.spec.scopes or old.spec.scope_selector != new.spec.scope_selector:
        return True

    def of(amounts: ResourceAmounts) -> QuotaUsage:
        return parse_amounts({key: text for key, text in amounts.items() if concerns(key)})

    limits = of(old.spec.hard), of(old.status.hard)
    if limits != (of(new.spec.hard), of(new.status.hard)):
        return True
    return bool(growth(of(old.status.used), of(new.status.used)))
