"""Whether a change of a quota may let a write pass that the quota refused."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.api.pod import ResourceAmounts
from holdfast.api.resource_quota import ResourceQuota
from holdfast.quota.amounts import Usage, growth, parse_amounts


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

    def of(amounts: ResourceAmounts) -> Usage:
        return parse_amounts({key: text for key, text in amounts.items() if concerns(key)})

    limits = of(old.spec.hard), of(old.status.hard)
    if limits != (of(new.spec.hard), of(new.status.hard)):
        return True
    return bool(growth(of(old.status.used), of(new.status.used)))
