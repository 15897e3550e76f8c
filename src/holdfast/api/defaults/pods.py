"""Defaults of pods and of the pod templates inside workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.defaults.raw_fields import (
    canonical_amounts,
    ensure_map,
    entries,
    if_present,
    set_defaults,
    set_zero_defaults,
)
from holdfast.api.pod import Pod
from holdfast.api.quantity import Quantity
from holdfast.api.requests import container_limit_nanos, container_request_nanos, nanos_text
from holdfast.api.resource_names import CPU, HUGE_PAGES_PREFIX, MEMORY, is_pod_level

_FILE_MODE = 0o644
_SOURCE_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "secret": {"defaultMode": _FILE_MODE},
    "configMap": {"defaultMode": _FILE_MODE},
    "downwardAPI": {"defaultMode": _FILE_MODE},
    "projected": {"defaultMode": _FILE_MODE},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "azureDisk": {
        "cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared",
    },
}  # fmt: skip


def default_pod(pod: JsonObject) -> None:
    """Default a pod: its spec, requests that follow from limits, its first status."""
    spec = ensure_map(pod, "spec")
    default_pod_spec(spec)
    for container in entries(spec, "containers", "initContainers"):
        resources = ensure_map(container, "resources")
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    if spec.get("resources"):
        _default_pod_level(pod, spec["resources"])
    set_defaults(spec, enableServiceLinks=True)
    if spec.get("hostNetwork"):
        for container in entries(spec, "containers", "initContainers"):
            for port in entries(container, "ports"):
                set_zero_defaults(port, hostPort=port.get("containerPort"))
    set_defaults(ensure_map(pod, "status"), phase="Pending", qosClass=qos_class(spec))


def default_pod_spec(spec: JsonObject) -> None:
    """Default the spec of a pod or pod template."""
    set_defaults(
        spec,
        dnsPolicy="ClusterFirst",
        restartPolicy="Always",
        securityContext={},
        terminationGracePeriodSeconds=30,
        schedulerName="default-scheduler",
    )
    canonical_amounts(spec, "overhead")
    if_present(spec, "resources", lambda r: canonical_amounts(r, "limits", "requests"))
    for container in entries(spec, "containers", "initContainers", "ephemeralContainers"):
        _default_container(container)
    for volume in entries(spec, "volumes"):
        default_volume(volume)


def _default_container(container: JsonObject) -> None:
    set_defaults(
        container,
        imagePullPolicy=pull_policy(container.get("image") or ""),
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    canonical_amounts(ensure_map(container, "resources"), "limits", "requests")
    for port in entries(container, "ports"):
        set_defaults(port, protocol="TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if_present(container, name, _default_probe)
    for hook in ("postStart", "preStop"):
        if_present(container.get("lifecycle") or {}, hook, _default_action)
    for variable in entries(container, "env"):
        if_present(
            variable.get("valueFrom") or {}, "fieldRef", lambda f: set_defaults(f, apiVersion="v1")
        )


def _default_probe(probe: JsonObject) -> None:
    set_zero_defaults(
        probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3
    )
    _default_action(probe)
    if_present(probe, "grpc", lambda grpc: set_defaults(grpc, service=""))


def _default_action(action: JsonObject) -> None:
    if_present(action, "httpGet", lambda get: set_defaults(get, path="/", scheme="HTTP"))


def default_volume(volume: JsonObject) -> None:
    """Default one volume; a volume without a source is an empty directory."""
    if not any(value is not None for key, value in volume.items() if key != "name"):
        volume["emptyDir"] = {}
    default_source(volume)
    if_present(volume, "hostPath", lambda host: host.setdefault("type", ""))
    if_present(volume, "image", lambda image: set_defaults(
        image, pullPolicy=pull_policy(image.get("reference") or "")
    ))  # fmt: skip
    if_present(volume, "downwardAPI", _default_items)
    for source in entries(volume.get("projected") or {}, "sources"):
        if_present(
            source, "serviceAccountToken", lambda token: set_defaults(token, expirationSeconds=3600)
        )
        if_present(source, "downwardAPI", _default_items)
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        ensure_map(template, "metadata")
        default_claim_spec(ensure_map(template, "spec"))


def default_source(volume: JsonObject) -> None:
    """Default the source of a volume or a persistent volume."""
    for name, values in _SOURCE_DEFAULTS.items():
        if_present(volume, name, lambda source, values=values: set_defaults(source, **values))  # type: ignore[misc]


def default_claim_spec(spec: JsonObject) -> None:
    """Default the spec of a persistent volume claim."""
    set_defaults(spec, volumeMode="Filesystem")
    if_present(spec, "resources", lambda r: canonical_amounts(r, "limits", "requests"))


def _default_items(source: JsonObject) -> None:
    for item in entries(source, "items"):
        if_present(item, "fieldRef", lambda field: set_defaults(field, apiVersion="v1"))


def pull_policy(image: str) -> str:
    """Return the pull policy of an image: Always if its tag may change.

    >>> pull_policy("registry:5000/app"), pull_policy("app:v1"), pull_policy("app@sha256:0")
    ('Always', 'IfNotPresent', 'IfNotPresent')
    """
    if not image:
        return "IfNotPresent"
    name, at, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or (not tag and not at) else "IfNotPresent"


def _default_pod_level(pod: JsonObject, resources: JsonObject) -> None:
    """Set pod-level requests and huge page limits from the containers and pod-level limits."""
    typed = convert_object({"spec": pod["spec"]}, Pod)
    requests = dict(resources.get("requests") or {})
    limits = dict(resources.get("limits") or {})
    for name, amount in container_limit_nanos(typed).items():
        if name.startswith(HUGE_PAGES_PREFIX) and name not in requests:
            limits.setdefault(name, nanos_text(name, amount))
    if limits:
        resources["limits"] = limits
        for name, amount in container_request_nanos(typed).items():
            if name in (CPU, MEMORY):
                requests.setdefault(name, nanos_text(name, amount))
        for name, text in limits.items():
            if is_pod_level(name):
                requests.setdefault(name, text)
    if requests:
        resources["requests"] = requests


def qos_class(spec: JsonObject) -> str:
    """Return the QoS class: Guaranteed, Burstable or BestEffort."""
    own = spec.get("resources") or {}
    if own.get("requests") or own.get("limits"):
        parts = [own]
    else:
        containers = entries(spec, "containers", "initContainers")
        parts = [c.get("resources") or {} for c in containers]
    asked = [_positive(p.get("requests")) for p in parts]
    allowed = [_positive(p.get("limits")) for p in parts]
    if not any(asked) and not any(allowed):
        return "BestEffort"
    fixed = all(len(most) == 2 and most == want for most, want in zip(allowed, asked, strict=True))
    return "Guaranteed" if fixed else "Burstable"


def _positive(amounts: JsonObject | None) -> dict[str, Quantity]:
    """Return the positive cpu and memory quantities."""
    quantities = {n: Quantity.parse(v) for n, v in (amounts or {}).items() if n in (CPU, MEMORY)}
    return {name: amount for name, amount in quantities.items() if not amount.is_zero()}
