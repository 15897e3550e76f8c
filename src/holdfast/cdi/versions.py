"""Versions of the CDI specification: which one a spec needs."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.cdi.spec import CdiSpec, ContainerEdits

VERSIONS = (
    "0.1.0",
    "0.2.0",
    "0.3.0",
    "0.4.0",
    "0.5.0",
    "0.6.0",
    "0.7.0",
    "0.8.0",
    "1.0.0",
    "1.1.0",
)
"""The released versions, in order."""
_LOWEST_WRITTEN = "0.3.0"


def lowest_version(spec: CdiSpec) -> str:
    """Return the lowest version that has all fields of a spec; older runtimes accept it too."""
    return _highest(spec)[0]


def version_error(spec: CdiSpec) -> str:
    """Return why the version of a spec is wrong, or ""."""
    if spec.cdi_version not in VERSIONS:
        return f"must be one of {', '.join(VERSIONS)}"
    version, field = _highest(spec)
    if field and VERSIONS.index(version) > VERSIONS.index(spec.cdi_version):
        return f"must be at least {version}, because of {field}"
    return ""


def _highest(spec: CdiSpec) -> tuple[str, str]:
    return max(_required_versions(spec), key=lambda found: VERSIONS.index(found[0]))


def _required_versions(spec: CdiSpec) -> Iterator[tuple[str, str]]:
    """Yield the fields that a version added and the spec uses; first the lowest, without field."""
    yield _LOWEST_WRITTEN, ""
    if spec.annotations:
        yield "0.6.0", "annotations"
    if "." in spec.kind.partition("/")[2]:
        yield "0.6.0", "the dot in kind"
    yield from _of_edits(spec.container_edits, "containerEdits")
    for i, device in enumerate(spec.devices):
        at = f"devices[{i}]"
        if device.name[:1].isdigit():
            yield "0.5.0", f"the digit at the start of {at}.name"
        if device.annotations:
            yield "0.6.0", f"{at}.annotations"
        yield from _of_edits(device.container_edits, f"{at}.containerEdits")


def _of_edits(edits: ContainerEdits, at: str) -> Iterator[tuple[str, str]]:
    for i, mount in enumerate(edits.mounts):
        if mount.type:
            yield "0.4.0", f"{at}.mounts[{i}].type"
    for i, node in enumerate(edits.device_nodes):
        if node.host_path:
            yield "0.5.0", f"{at}.deviceNodes[{i}].hostPath"
    if edits.additional_gids:
        yield "0.7.0", f"{at}.additionalGids"
    if (rdt := edits.intel_rdt) is not None:
        yield "0.7.0", f"{at}.intelRdt"
        if rdt.schemata is not None:
            yield "1.1.0", f"{at}.intelRdt.schemata"
        if rdt.enable_monitoring:
            yield "1.1.0", f"{at}.intelRdt.enableMonitoring"
    if edits.net_devices:
        yield "1.1.0", f"{at}.netDevices"
