"""The environment of a container: its variables, and the values that they refer to."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping

from holdfast.api.pod import ResourceAmounts
from holdfast.api.requests import nanos
from holdfast.api.resource import Resource
from holdfast.node.agent.node_pod import (
    CONFIG_MAPS,
    SECRETS,
    Data,
    EnvFromSource,
    EnvSource,
    EnvVar,
    KeySelector,
    NodeContainer,
    NodePod,
    ResourceFieldReference,
)
from holdfast.node.agent.runtime import NotStarted
from holdfast.runtime.errors import BadRequest

ReadData = Callable[[Resource[Data], str], Awaitable[Data | None]]
"""Returns a ConfigMap or Secret of the pod's namespace by name, or None."""
CONFIG_ERROR = "CreateContainerConfigError"
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_ENTRY = re.compile(r"(labels|annotations)\['(.*)'\]", re.DOTALL)


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by the value of a variable; ``$$`` is a dollar sign.

    >>> expand("$(A)-$(B)-$$(A)", {"A": "1"})
    '1-$(B)-$(A)'
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else values.get(name, match.group())

    return _REFERENCE.sub(value, text)


async def container_environment(
    pod: NodePod, container: NodeContainer, allocatable: ResourceAmounts, read: ReadData
) -> dict[str, str]:
    """Return the variables of a container; raise NotStarted if a value cannot be read."""
    values: dict[str, str] = {}
    for source in container.env_from:
        values |= await _from_source(pod, source, read)
    for variable in container.env:
        if variable.value_from is None:
            values[variable.name] = expand(variable.value, values)
            continue
        value: str | None
        if (reference := variable.value_from.resource_field_ref) is not None:
            value = resource_field(pod, container, reference, allocatable)
        else:
            value = await _referred(pod, variable, variable.value_from, read)
        if value is not None:
            values[variable.name] = value
    return values


async def _from_source(pod: NodePod, source: EnvFromSource, read: ReadData) -> dict[str, str]:
    values: dict[str, str] = {}
    for resource, selector in (
        (CONFIG_MAPS, source.config_map_ref),
        (SECRETS, source.secret_ref),
    ):
        if selector is not None and (data := await _data(pod, resource, selector, read)):
            values |= {source.prefix + key: text for key, text in data.items()}
    return {name: text for name, text in values.items() if name and "=" not in name}


async def _referred(
    pod: NodePod, variable: EnvVar, source: EnvSource, read: ReadData
) -> str | None:
    """Return the value of a reference; None if it is optional and missing."""
    if source.field_ref is not None:
        return pod_field(pod, source.field_ref.field_path)
    for resource, selector in (
        (CONFIG_MAPS, source.config_map_key_ref),
        (SECRETS, source.secret_key_ref),
    ):
        if selector is None:
            continue
        data = await _data(pod, resource, selector, read)
        if data is not None and selector.key in data:
            return data[selector.key]
        if selector.optional:
            return None
        raise NotStarted(
            f"couldn't find key {selector.key} in {resource.kind} {pod.namespace}/{selector.name}",
            CONFIG_ERROR,
        )
    raise NotStarted(f"env {variable.name}: this kind of valueFrom is not supported", CONFIG_ERROR)


async def _data(
    pod: NodePod, resource: Resource[Data], selector: KeySelector, read: ReadData
) -> dict[str, str] | None:
    obj = await read(resource, selector.name)
    if obj is None:
        if selector.optional:
            return None
        raise NotStarted(f'{resource.singular} "{selector.name}" not found', CONFIG_ERROR)
    if resource == CONFIG_MAPS:
        return obj.data
    return {key: _decoded(pod, selector.name, key, text) for key, text in obj.data.items()}


def _decoded(pod: NodePod, name: str, key: str, text: str) -> str:
    try:
        value = base64.b64decode(text).decode(errors="surrogateescape")
    except ValueError as error:
        raise NotStarted(
            f"key {key} of Secret {pod.namespace}/{name} is not in base64", CONFIG_ERROR
        ) from error
    if "\0" in value:
        raise NotStarted(
            f"key {key} of Secret {pod.namespace}/{name} has a zero byte: it cannot be a variable",
            CONFIG_ERROR,
        )
    return value


def pod_field(pod: NodePod, path: str) -> str:
    """Return a field of a pod as a variable's value."""
    fields = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": pod.status.host_ip,
        "status.hostIPs": pod.status.host_ip,
        "status.podIP": pod.status.pod_ip,
        "status.podIPs": pod.status.pod_ip,
    }
    if path in fields:
        return fields[path]
    entry = _ENTRY.fullmatch(path.removeprefix("metadata."))
    if entry is None:
        raise NotStarted(f"unsupported fieldPath: {path}", CONFIG_ERROR)
    kind, key = entry.groups()
    entries = pod.metadata.labels if kind == "labels" else pod.metadata.annotations
    return entries.get(key, "")


def resource_field(
    pod: NodePod,
    container: NodeContainer,
    reference: ResourceFieldReference,
    allocatable: ResourceAmounts,
) -> str:
    """Return a request or limit in units of the divisor, rounded up.

    Without a limit of cpu or memory the container may use all that the node has.
    """
    name = reference.container_name or container.name
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    target = next((c for c in containers if c.name == name), None)
    kind, _, resource = reference.resource.partition(".")
    if target is None or kind not in ("limits", "requests") or not resource:
        raise NotStarted(
            f"unsupported resourceFieldRef: {reference.resource} of container {name!r}",
            CONFIG_ERROR,
        )
    own = target.resources.limits if kind == "limits" else target.resources.requests
    amount = own.get(resource, allocatable.get(resource, 0) if kind == "limits" else 0)
    try:
        divisor = nanos(reference.divisor) or 10**9
        return str(-(-nanos(amount) // divisor))
    except BadRequest as error:
        raise NotStarted(f"resourceFieldRef: {error}", CONFIG_ERROR) from error
