"""Builders of objects for tests; pass only what matters: ``a_pod("web", cpu="2")``.

Each builder returns the raw dict for an API server; ``typed`` converts it to the struct that the
components use. Other keyword arguments are fields of ``spec``, in snake_case:
``a_pod(node_selector={"zone": "a"})``. Values have the form of the API. None leaves a field out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.api import scheme
from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.api.resource_names import is_extended

Labels = Mapping[str, str] | None
Amount = str | int | float | None

_RESOURCES: dict[tuple[str, str], Resource[Any]] = {
    (each.api_version, each.kind): each for each in scheme.TYPED
}


def resource_of(raw: Mapping[str, Any]) -> Resource[Any]:
    """Return the API resource of an object."""
    return _RESOURCES[raw["apiVersion"], raw["kind"]]


def typed(raw: Mapping[str, Any], **metadata: Any) -> Any:
    """Convert a raw object to its struct, as if it had been stored.

    ``metadata`` is added to its metadata. A missing uid is made from the name.

    >>> typed(a_pod("web", cpu="2")).spec.containers[0].resources.requests
    {'cpu': '2'}
    """
    meta = {**raw["metadata"], **camel(metadata)}
    meta.setdefault("uid", f"uid-{raw['kind'].lower()}-{meta.get('namespace', '')}-{meta['name']}")
    meta.setdefault("resourceVersion", "1")
    obj: Object = convert_object({**raw, "metadata": meta}, resource_of(raw).type)
    return obj


def a_pod(
    name: str = "p",
    *,
    namespace: str = "default",
    cpu: Amount = "1",
    memory: Amount = None,
    requests: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    labels: Labels = None,
    annotations: Labels = None,
    node: str | None = None,
    image: str = "registry.k8s.io/pause:3.10",
    claims: Sequence[Mapping[str, str]] = (),
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """A pod with one container that requests one CPU by default.

    ``requests`` adds to cpu and memory. Requests of extended resources are also set as limits,
    because an API server accepts no others. ``claims`` are entries of ``spec.resourceClaims``; the
    container uses them all.
    """
    fixed = {name: amount for name, amount in (requests or {}).items() if is_extended(name)}
    resources = kept(
        requests={**kept(cpu=cpu, memory=memory), **(requests or {})} or None,
        limits={**fixed, **(limits or {})} or None,
        claims=[{"name": claim["name"]} for claim in claims] or None,
    )
    container = {"name": "main", "image": image, "resources": resources}
    body = kept(
        nodeName=node,
        containers=[container],
        resourceClaims=[dict(claim) for claim in claims] or None,
    )
    pod = an_object(
        scheme.PODS, name, body | camel(spec), namespace=namespace, labels=labels,
        annotations=annotations, metadata=metadata,
    )  # fmt: skip
    return pod | ({"status": dict(status)} if status else {})


def a_node(
    name: str = "n",
    *,
    cpu: Amount = "8",
    memory: Amount = "32Gi",
    pods: Amount = "110",
    allocatable: Mapping[str, Any] | None = None,
    labels: Labels = None,
    annotations: Labels = None,
    taints: Sequence[Mapping[str, Any]] = (),
    ready: bool = True,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """A ready node, labelled with its own hostname; ``allocatable`` adds resources."""
    amounts = {**kept(cpu=cpu, memory=memory, pods=pods), **(allocatable or {})}
    marks = {"kubernetes.io/hostname": name, **(labels or {})}
    body = kept(taints=[dict(taint) for taint in taints] or None) | camel(spec)
    node = an_object(
        scheme.NODES, name, body, labels=marks, annotations=annotations, metadata=metadata
    )
    condition = {
        "type": "Ready", "status": "True" if ready else "False",
        "reason": "KubeletReady" if ready else "KubeletNotReady",
    }  # fmt: skip
    status = {"capacity": amounts, "allocatable": dict(amounts), "conditions": [condition]}
    return node | {"status": status}


def a_namespace(name: str = "default", *, labels: Labels = None) -> JsonObject:
    """A namespace."""
    return an_object(scheme.NAMESPACES, name, {}, labels=labels)


def a_priority_class(name: str = "high", value: int = 1000, **fields: Any) -> JsonObject:
    """A priority class; it has no spec, so keywords are fields of the object itself."""
    made = an_object(scheme.PRIORITY_CLASSES, name, {})
    return made | {"value": value} | camel(fields)


def a_reservation(
    name: str = "r",
    *,
    cpu: Amount = "1",
    memory: Amount = None,
    requests: Mapping[str, Any] | None = None,
    owners: Sequence[Mapping[str, Any]] | None = None,
    owner_labels: Labels = None,
    ttl: str | None = "1h",
    labels: Labels = None,
    annotations: Labels = None,
    template: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """A reservation for pods with ``owner_labels`` (``app: NAME`` by default), or for ``owners``.

    ``template`` adds to the template pod's spec.
    """
    pod = a_pod("template", cpu=cpu, memory=memory, requests=requests, **(template or {}))
    selector = {"labelSelector": {"matchLabels": dict(owner_labels or {"app": name})}}
    body = kept(
        template={"metadata": {"namespace": "default"}, "spec": pod["spec"]},
        owners=[dict(owner) for owner in owners] if owners is not None else [selector],
        ttl=ttl,
    )
    made = an_object(
        scheme.RESERVATIONS, name, body | camel(spec), labels=labels, annotations=annotations,
        metadata=metadata,
    )  # fmt: skip
    return made | ({"status": dict(status)} if status else {})


def a_unit(
    name: str = "pool", priority: int = 0, *, nodes: Labels = None, **fields: Any
) -> JsonObject:
    """A unit of a resource policy; ``nodes`` are the labels that select its nodes.

    >>> a_unit("od", 5, max_count=2, max_resources={"cpu": 3})["maxCount"]
    2
    """
    selector = {"matchLabels": dict(nodes if nodes is not None else {"pool": name})}
    return {"name": name, "priority": priority, "nodeSelector": selector, **camel(fields)}


def a_resource_policy(
    name: str = "policy",
    *,
    namespace: str = "default",
    pods: Labels = None,
    units: Sequence[Mapping[str, Any]] | None = None,
    labels: Labels = None,
    annotations: Labels = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    when_try_next_units: str | Mapping[str, Any] | None = None,
    timeout: str | None = None,
    **spec: Any,
) -> JsonObject:
    """A resource policy for pods labelled ``pods`` (``app: NAME`` by default; {} selects all).

    It has one unit by default. ``when_try_next_units`` may be the name of its policy, with a
    ``timeout``.
    """
    if isinstance(when_try_next_units, str):
        when_try_next_units = kept(policy=when_try_next_units, timeout=timeout)
    body = kept(
        podSelector={"matchLabels": dict({"app": name} if pods is None else pods)},
        units=[a_unit()] if units is None else [dict(unit) for unit in units],
        whenTryNextUnits=when_try_next_units,
    )
    body |= camel(spec)
    made = an_object(
        scheme.RESOURCE_POLICIES,
        name,
        body,
        namespace=namespace,
        labels=labels,
        annotations=annotations,
        metadata=metadata,
    )
    return made | ({"status": dict(status)} if status else {})


def a_replica_set(name: str = "rs", *, replicas: int = 1, **pod: Any) -> JsonObject:
    """A replica set of pods labelled ``app: NAME``; keywords are those of ``a_pod``."""
    return _workload(scheme.REPLICASETS, name, replicas, pod)


def a_deployment(name: str = "web", *, replicas: int = 1, **pod: Any) -> JsonObject:
    """A deployment of pods labelled ``app: NAME``; keywords are those of ``a_pod``."""
    return _workload(scheme.DEPLOYMENTS, name, replicas, pod)


def _workload(resource: Resource[Any], name: str, replicas: int, pod: JsonObject) -> JsonObject:
    namespace = pod.pop("namespace", "default")
    labels = {"app": name, **(pod.pop("labels", None) or {})}
    made = a_pod(name, namespace=namespace, labels=labels, **pod)
    meta = {
        key: made["metadata"][key] for key in ("labels", "annotations") if key in made["metadata"]
    }
    body = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": meta, "spec": made["spec"]},
    }
    return an_object(resource, name, body, namespace=namespace)


def an_object(
    resource: Resource[Any],
    name: str,
    spec: JsonObject,
    *,
    namespace: str = "",
    labels: Labels = None,
    annotations: Labels = None,
    metadata: Mapping[str, Any] | None = None,
) -> JsonObject:
    """Return an object; an empty spec is left out."""
    meta = kept(
        name=name,
        namespace=namespace or None,
        labels=dict(labels) if labels else None,
        annotations=dict(annotations) if annotations else None,
    )
    made: JsonObject = {
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": meta | camel(metadata or {}),
    }  # fmt: skip
    return made | ({"spec": spec} if spec else {})


def camel(fields: Mapping[str, Any]) -> JsonObject:
    """Convert snake_case keys to camelCase, without values that are None.

    >>> camel({"node_selector": {"zone": "a"}, "priority": None})
    {'nodeSelector': {'zone': 'a'}}
    """
    made: JsonObject = {}
    for key, value in fields.items():
        head, *rest = key.split("_")
        made[head + "".join(part.capitalize() for part in rest)] = value
    return {key: value for key, value in made.items() if value is not None}


def kept(**fields: Any) -> JsonObject:
    """Return a dict of the values that are not None."""
    return {key: value for key, value in fields.items() if value is not None}
