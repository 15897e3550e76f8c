"""The rules of a CDI spec and of the names in it; every error names its field."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.api.field_errors import duplicate, invalid, not_supported, required
from holdfast.node.cdi.spec import (
    CdiSpec,
    ContainerEdits,
    DeviceNode,
    Hook,
    IntelRdt,
    version_error,
)
from holdfast.runtime.errors import Cause

HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_NODE_TYPES = ("b", "c", "u", "p")
_LONGEST_CLOS_ID = 4095
_LARGEST_ID = 2**32 - 1
_MIDDLE = {"vendor": "_.-", "class": "_.-", "name": "_.:-"}


def check_spec(spec: CdiSpec) -> Iterator[Cause]:
    """Yield what is wrong with a spec."""
    if error := version_error(spec):
        yield invalid("cdiVersion", spec.cdi_version, error)
    if error := kind_error(spec.kind):
        yield invalid("kind", spec.kind, error)
    yield from _check_edits(spec.container_edits, "containerEdits")
    if not spec.devices:
        yield required("devices", "a spec has at least one device")
    seen: set[str] = set()
    for i, device in enumerate(spec.devices):
        at = f"devices[{i}]"
        if error := name_error(device.name, "name"):
            yield invalid(f"{at}.name", device.name, error)
        elif device.name in seen:
            yield duplicate(f"{at}.name", device.name)
        seen.add(device.name)
        if not device.container_edits:
            yield required(f"{at}.containerEdits", "a device has at least one edit")
        yield from _check_edits(device.container_edits, f"{at}.containerEdits")


def _check_edits(edits: ContainerEdits, at: str) -> Iterator[Cause]:
    yield from _check_env(edits.env, f"{at}.env")
    for i, node in enumerate(edits.device_nodes):
        yield from _check_node(node, f"{at}.deviceNodes[{i}]")
    for i, mount in enumerate(edits.mounts):
        if not mount.host_path:
            yield required(f"{at}.mounts[{i}].hostPath")
        if not mount.container_path:
            yield required(f"{at}.mounts[{i}].containerPath")
    for i, hook in enumerate(edits.hooks):
        yield from _check_hook(hook, f"{at}.hooks[{i}]")
    if edits.intel_rdt is not None:
        yield from _check_rdt(edits.intel_rdt, f"{at}.intelRdt")
    yield from _check_net_devices(edits, f"{at}.netDevices")
    for i, gid in enumerate(edits.additional_gids):
        yield from _check_id(gid, f"{at}.additionalGids[{i}]")


def _check_env(env: tuple[str, ...], at: str) -> Iterator[Cause]:
    for i, pair in enumerate(env):
        if pair.find("=") < 1:
            yield invalid(f"{at}[{i}]", pair, "must be NAME=VALUE")
        elif "\0" in pair:
            yield invalid(f"{at}[{i}]", pair, "must not contain a NUL character")


def _check_node(node: DeviceNode, at: str) -> Iterator[Cause]:
    if not node.path:
        yield required(f"{at}.path")
    if node.type and node.type not in _NODE_TYPES:
        yield not_supported(f"{at}.type", node.type, _NODE_TYPES)
    if set(node.permissions) - set("rwm"):
        yield invalid(f"{at}.permissions", node.permissions, "must consist of 'r', 'w' and 'm'")
    for field, value in (("fileMode", node.file_mode), ("uid", node.uid), ("gid", node.gid)):
        yield from _check_id(value, f"{at}.{field}")


def _check_id(value: int | None, at: str) -> Iterator[Cause]:
    if value is not None and not 0 <= value <= _LARGEST_ID:
        yield invalid(at, value, f"must be between 0 and {_LARGEST_ID}")


def _check_hook(hook: Hook, at: str) -> Iterator[Cause]:
    if hook.hook_name not in HOOKS:
        yield not_supported(f"{at}.hookName", hook.hook_name, HOOKS)
    if not hook.path:
        yield required(f"{at}.path")
    yield from _check_env(hook.env, f"{at}.env")


def _check_rdt(rdt: IntelRdt, at: str) -> Iterator[Cause]:
    name = rdt.clos_id
    if name in (".", "..") or "/" in name or "\n" in name or len(name) > _LONGEST_CLOS_ID:
        yield invalid(f"{at}.closID", name, "must be the name of a directory")


def _check_net_devices(edits: ContainerEdits, at: str) -> Iterator[Cause]:
    hosts: set[str] = set()
    names: set[str] = set()
    for i, device in enumerate(edits.net_devices):
        for field, value, seen in (
            ("hostInterfaceName", device.host_interface_name, hosts),
            ("name", device.name, names),
        ):
            if not value:
                yield required(f"{at}[{i}].{field}")
            elif value in seen:
                yield duplicate(f"{at}[{i}].{field}", value)
            seen.add(value)


def name_error(text: str, part: str) -> str:
    """Return what is wrong with a vendor, class or device name ("name"), or "".

    >>> name_error("gpu-", "name")
    'must start and end with a letter or digit'
    >>> name_error("0.example.com", "vendor")
    'must start with a letter and end with a letter or digit'
    """
    if not text:
        return "must not be empty"
    first, rule = "A-Za-z", "must start with a letter and end with a letter or digit"
    if part == "name":
        first, rule = "A-Za-z0-9", "must start and end with a letter or digit"
    if not re.fullmatch(f"[{first}]|[{first}].*[A-Za-z0-9]", text, re.DOTALL):
        return rule
    middle = _MIDDLE[part]
    if not re.fullmatch(f"[A-Za-z0-9{middle}]+", text):
        signs = " ".join(f"'{sign}'" for sign in middle)
        return f"must consist of letters, digits and {signs}"
    return ""


def kind_error(kind: str) -> str:
    """Return what is wrong with a kind (``vendor/class``), or "".

    >>> kind_error("example.com")
    'must be vendor/class'
    >>> kind_error("example.com/gpu/x")
    "the class must consist of letters, digits and '_' '.' '-'"
    """
    vendor, slash, class_ = kind.partition("/")
    if not slash:
        return "must be vendor/class"
    for part, text in (("vendor", vendor), ("class", class_)):
        if error := name_error(text, part):
            return f"the {part} {error}"
    return ""


def qualified_name_error(text: str) -> str:
    """Return what is wrong with a qualified name (``vendor/class=name``), or "".

    >>> qualified_name_error("example.com/gpu=gpu-0"), qualified_name_error("gpu-0")
    ('', 'must be vendor/class=name')
    """
    kind, equals, name = text.partition("=")
    if not equals:
        return "must be vendor/class=name"
    if error := kind_error(kind):
        return error
    return f"the device name {error}" if (error := name_error(name, "name")) else ""
