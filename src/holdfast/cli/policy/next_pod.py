"""The next pod of a policy: a pending one, or one more like those of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.meta import Object
from holdfast.api.pod import Pod, PodStatus
from holdfast.api.resource_policy import ResourcePolicy
from holdfast.api.timestamps import rfc3339
from holdfast.cli.policy.listing import selector_text
from holdfast.runtime.errors import Refused
from holdfast.state.resource_policies.policies import Policy


@dataclass(frozen=True, slots=True)
class NextPod:
    """A pod to explain; ``exists`` if it is in the cluster, else it is built from a template."""

    pod: Pod
    description: str
    exists: bool


def pod_named(policy: Policy, objects: Sequence[Object], name: str) -> NextPod:
    """Return a pod of the policy's namespace; raise Refused unless the policy selects it."""
    namespace, _, name = (
        name.rpartition("/") if "/" in name else (policy.object.namespace, "", name)
    )
    if namespace != policy.object.namespace:
        raise Refused(
            f"policy {policy.key} never selects pods of namespace {namespace}: a policy governs "
            "pods of its own namespace"
        )
    pods = [obj for obj in objects if isinstance(obj, Pod) and obj.namespace == namespace]
    pod = next((pod for pod in pods if pod.name == name), None)
    if pod is None:
        raise Refused(
            f'there is no pod "{name}" in namespace "{namespace}": '
            f"`kubectl get pods -n {namespace}` lists them"
        )
    _require_selected(policy, pod, f"pod {name}")
    if pod.finished:
        raise Refused(f"pod {name} has finished ({pod.status.phase}) and needs no node")
    return NextPod(pod, f"pod {name}", exists=True)


def pod_of_workload(policy: Policy, maker: JsonObject, target: str, now: float) -> NextPod:
    """Return one more pod of a workload, from the template of the object that makes its pods."""
    meta, template = maker["metadata"], maker["spec"].get("template") or {}
    made = template.get("metadata") or {}
    owner = {
        "apiVersion": maker.get("apiVersion", "apps/v1"),
        "kind": maker["kind"],
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "controller": True,
    }
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name']}-next",
            "namespace": meta["namespace"],
            "uid": f"next-of-{meta.get('uid', '')}",
            "creationTimestamp": rfc3339(now),
            "labels": made.get("labels") or {},
            "annotations": made.get("annotations") or {},
            "ownerReferences": [owner],
        },
        "spec": template.get("spec") or {},
    }
    pod = convert_object(raw, Pod)
    _require_selected(policy, pod, f"a pod of {target}")
    return NextPod(pod, f"one more pod of {target}", exists=False)


def usual_next_pod(policy: Policy, objects: Sequence[Object], now: float) -> NextPod:
    """Return the pending pod that is tried first, or one more like the newest pod."""
    pods = [
        obj
        for obj in objects
        if isinstance(obj, Pod) and policy.selects(obj.namespace, obj.metadata.labels)
    ]
    pending = [p for p in pods if not (p.spec.node_name or p.finished or p.terminating)]
    if pending:
        first = min(
            pending,
            key=lambda p: (-(p.spec.priority or 0), p.metadata.creation_timestamp or "", p.name),
        )
        return NextPod(first, f"pending pod {first.name}", exists=True)
    if not pods:
        raise Refused(
            f"policy {policy.key} selects no pod (podSelector {selector_text(policy.selector)}): "
            "name a workload to explain one more pod of it, such as --for deployment/NAME"
        )
    newest = max(pods, key=lambda p: (p.metadata.creation_timestamp or "", p.name))
    return NextPod(
        _one_more(newest, policy.object, now), f"one more pod like {newest.name}", exists=False
    )


def _one_more(pod: Pod, policy: ResourcePolicy, now: float) -> Pod:
    """Return a new pod like this one, without the fields that were set when it was placed."""
    units = policy.spec.units
    written = {key for unit in units for key in unit.pod_labels}
    noted = {key for unit in units for key in unit.pod_annotations}
    metadata = msgspec.structs.replace(
        pod.metadata,
        name=f"{pod.name}-next",
        uid=f"next-of-{pod.uid}",
        creation_timestamp=rfc3339(now),
        deletion_timestamp=None,
        labels={k: v for k, v in pod.metadata.labels.items() if k not in written},
        annotations={k: v for k, v in pod.metadata.annotations.items() if k not in noted},
    )
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=PodStatus())


def _require_selected(policy: Policy, pod: Pod, what: str) -> None:
    if not policy.selects(pod.namespace, pod.metadata.labels):
        raise Refused(
            f"policy {policy.key} does not select {what}: podSelector is "
            f"{selector_text(policy.selector)}, the pod has {_labels_text(pod.metadata.labels)}"
        )


def _labels_text(labels: Mapping[str, str]) -> str:
    """Write labels in the form of a selector."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "no labels"
