"""Kinds of resource names: native, extended, huge pages, attachable volumes."""

from __future__ import annotations

from functools import lru_cache

from holdfast.api.names import label_key

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
HUGE_PAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Each device class is also an extended resource: this prefix followed by the class name."""
NATIVE_DOMAIN = "kubernetes.io/"
_QUOTA_PREFIX = "requests."
LONGEST_NAME = 253 + 1 + 63
"""A domain, a slash and a name; longer texts are not cached."""


def is_extended(name: str) -> bool:
    """Return whether a name is an extended resource: its domain is not kubernetes.io.

    >>> is_extended("example.com/gpu"), is_extended("cpu"), is_extended("kubernetes.io/x")
    (True, False, False)
    """
    return len(name) <= LONGEST_NAME and _is_extended(name)


def may_be_devices(name: str) -> bool:
    """Return whether a resource may be devices: extended, or the implicit name of a class.

    >>> may_be_devices("example.com/gpu"), may_be_devices("cpu")
    (True, False)
    """
    return name.startswith(DEVICE_CLASS_PREFIX) or is_extended(name)


@lru_cache(maxsize=4096)
def _is_extended(name: str) -> bool:
    if "/" not in name or NATIVE_DOMAIN in name or name.startswith(_QUOTA_PREFIX):
        return False
    return not label_key(_QUOTA_PREFIX + name)


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Return whether the scheduler counts a resource other than cpu, memory, ephemeral storage."""
    return (
        name.startswith((HUGE_PAGES_PREFIX, ATTACHABLE_VOLUMES_PREFIX))
        or NATIVE_DOMAIN in name
        or is_extended(name)
    )


@lru_cache(maxsize=4096)
def is_counted(name: str) -> bool:
    """Return whether the scheduler counts a resource."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)


def is_pod_level(name: str) -> bool:
    """Return whether a resource is allowed in pod-level requests (``spec.resources``)."""
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def container_name_error(name: str) -> str:
    """Return why a container cannot request a resource whose name is well formed, or "".

    >>> container_name_error("memmory"), container_name_error("example.com/gpu")
    ('must be a standard resource for containers', '')
    """
    if "/" not in name:
        if name in (CPU, MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGE_PAGES_PREFIX):
            return ""
        return "must be a standard resource for containers"
    if NATIVE_DOMAIN in name or is_extended(name):
        return ""
    return "doesn't follow extended resource name standard"
