"""The keys of quotas, and amounts by key: sums, differences, and how messages show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from holdfast.api.pod import ResourceAmounts
from holdfast.api.quantity import AmountText, Quantity
from holdfast.api.resource_names import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, PODS

REQUESTS, LIMITS = "requests.", "limits."
VOLUME_CLAIMS, STORAGE = "persistentvolumeclaims", "requests.storage"
PLAIN_COUNTS = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
"""Keys that are only another name of an object count."""
SERVICES = ("services", "services.nodeports", "services.loadbalancers")
CLASSIC_CLAIMS = "resourceclaims"
"""The claims of classic DRA; those of ``resource.k8s.io`` have no such key."""
COUNTS = frozenset({PODS, VOLUME_CLAIMS, CLASSIC_CLAIMS, *PLAIN_COUNTS, *SERVICES})


def _requests_and_limits(*names: str) -> frozenset[str]:
    return frozenset(prefix + name for prefix in ("", REQUESTS, LIMITS) for name in names)


CPU_AND_MEMORY = _requests_and_limits(CPU, MEMORY)
POD_AMOUNTS = CPU_AND_MEMORY | _requests_and_limits(EPHEMERAL_STORAGE)
_STANDARD = COUNTS | POD_AMOUNTS | {STORAGE}


def is_standard_key(key: str) -> bool:
    """Return whether a key is standard, huge pages included.

    >>> is_standard_key("limits.cpu"), is_standard_key("hugepages-2Mi"), is_standard_key("count/x")
    (True, True, False)
    """
    return key in _STANDARD or is_huge_pages_key(key)


def is_huge_pages_key(key: str) -> bool:
    """Return whether a key is an amount of huge pages; they have no key of limits."""
    return key.startswith((HUGE_PAGES_PREFIX, REQUESTS + HUGE_PAGES_PREFIX))


QuotaUsage = dict[str, Quantity]
"""What is charged, by the key of ``spec.hard``."""
ZERO, ONE = Quantity(0), Quantity(1)


@lru_cache(maxsize=16384)
def parse(text: AmountText) -> Quantity:
    """Parse a quantity; thousands of objects have the same few."""
    return Quantity.parse(text)


def parse_amounts(amounts: ResourceAmounts) -> QuotaUsage:
    """Parse the quantities of a quota."""
    return {key: parse(text) for key, text in amounts.items()}


def add_usage(total: QuotaUsage, more: Mapping[str, Quantity]) -> None:
    """Add amounts to ``total``; the first amount that is not zero decides the suffix family."""
    for key, amount in more.items():
        total[key] = total[key] + amount if key in total else amount


def growth(new: Mapping[str, Quantity], old: Mapping[str, Quantity]) -> QuotaUsage:
    """Return by how much each key grows; keys that do not grow are omitted.

    >>> {key: str(q) for key, q in growth({"a": ONE, "b": ONE}, {"b": ONE}).items()}
    {'a': '1'}
    """
    grown = {key: amount - old[key] if key in old else amount for key, amount in new.items()}
    return {key: amount for key, amount in grown.items() if amount.digits > 0}


def to_texts(usage: Mapping[str, Quantity]) -> dict[str, str]:
    """Return canonical quantities, sorted by key."""
    return {key: str(usage[key]) for key in sorted(usage)}


def show(usage: Mapping[str, Quantity], keys: Iterable[str]) -> str:
    """Return amounts as upstream's messages show them.

    >>> show({"pods": ONE, "cpu": Quantity(5, -1)}, ["pods", "cpu"])
    'cpu=500m,pods=1'
    """
    return ",".join(f"{key}={usage.get(key, ZERO)}" for key in sorted(keys))
