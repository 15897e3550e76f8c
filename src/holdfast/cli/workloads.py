"""Workloads in kubectl's notation: ``deployment/web``."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api import scheme
from holdfast.api.decode import JsonObject
from holdfast.api.resource import Resource
from holdfast.api.workloads import same_template
from holdfast.client.client import Client
from holdfast.runtime.errors import NotFound, Refused

KINDS: dict[str, Resource[Any]] = {
    name: resource
    for resource, names in (
        (scheme.DEPLOYMENTS, ("deployment", "deployments", "deploy")),
        (scheme.REPLICASETS, ("replicaset", "replicasets", "rs")),
        (scheme.STATEFULSETS, ("statefulset", "statefulsets", "sts")),
    )
    for name in names
}


def workload(text: str) -> tuple[Resource[Any], str]:
    """Read ``deployment/web`` as a resource and a name."""
    kind, slash, name = text.partition("/")
    resource = KINDS.get(kind.lower())
    if resource is None or not slash or not name:
        raise Refused(
            f"--for {text}: give KIND/NAME, such as deployment/web; the kinds are "
            f"{', '.join(sorted({r.kind.lower() for r in KINDS.values()}))}"
        )
    return resource, name


async def read_workload(client: Client, target: str, namespace: str) -> JsonObject:
    """Read a workload such as ``deployment/web`` as JSON."""
    resource, name = workload(target)
    try:
        text = await client.raw(resource.path(namespace, name))
    except NotFound as missing:
        raise Refused(
            f'there is no {resource.kind} "{name}" in namespace "{namespace}": '
            f"`kubectl get {resource.plural} -A` lists them; -n names the namespace"
        ) from missing
    raw: JsonObject = msgspec.json.decode(text)
    return {"kind": resource.kind, **raw}


async def read_pod_maker(client: Client, target: str, namespace: str) -> JsonObject:
    """Read the object that creates the next pod: for a Deployment, its newest ReplicaSet.

    A Deployment without a ReplicaSet for its template is returned itself.
    """
    raw = await read_workload(client, target, namespace)
    if raw["kind"] != scheme.DEPLOYMENTS.kind:
        return raw
    listed = msgspec.json.decode(await client.raw(scheme.REPLICASETS.path(namespace)))
    for candidate in listed["items"]:
        owners = candidate["metadata"].get("ownerReferences") or ()
        if any(owner["uid"] == raw["metadata"]["uid"] for owner in owners) and (
            same_template(candidate["spec"]["template"], raw["spec"]["template"])
        ):
            return {"kind": scheme.REPLICASETS.kind, **candidate}
    return raw
