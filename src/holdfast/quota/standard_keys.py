"""The standard keys of quotas: counts of core objects, and amounts of pods and volume claims."""

from __future__ import annotations

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
