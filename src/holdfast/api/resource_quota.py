"""ResourceQuotas: hard limits of a namespace, and their usage."""

from __future__ import annotations

from holdfast.api.meta import Object, Struct
from holdfast.api.pod import ResourceAmounts


class ScopeRequirement(Struct, frozen=True):
    """One expression over a scope: In, NotIn, Exists or DoesNotExist."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Struct, frozen=True):
    """Requirements, all ANDed."""

    match_expressions: tuple[ScopeRequirement, ...] = ()


class ResourceQuotaSpec(Struct, frozen=True):
    """Hard limits, and the scopes that an object must match to be counted."""

    hard: ResourceAmounts = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct, frozen=True):
    """The enforced limits and the usage."""

    hard: ResourceAmounts = {}
    used: ResourceAmounts = {}


class ResourceQuota(Object, frozen=True):
    """A quota of a namespace."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()

    @property
    def requirements(self) -> tuple[ScopeRequirement, ...]:
        """The scopes and the scope selector as one list; an object must match all of them."""
        scopes = tuple(ScopeRequirement(scope_name=s, operator="Exists") for s in self.spec.scopes)
        selector = self.spec.scope_selector
        return scopes + (selector.match_expressions if selector is not None else ())
