"""Small valid objects of each kind, to which fields are added and which are damaged."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from fuzz.odd_values import LABEL_KEYS, NAMES
from fuzz.values import Values
from holdfast.testing import builders as build
from holdfast.testing import device_builders as devices
from holdfast.testing import storage_builders as storage

Raw = dict[str, Any]
_TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Always"},
}
_SELECTOR = {"matchLabels": {"app": "web"}}


def _pod(values: Values) -> Raw:
    pod = build.a_pod("p", cpu="100m", labels={"app": values.pick(("web", "a"))})
    spec = pod["spec"]
    term = {"labelSelector": _SELECTOR, "topologyKey": values.pick(LABEL_KEYS)}
    extras: tuple[Raw, ...] = (
        {}, {}, {"nodeName": "n1"}, {"priorityClassName": "high"}, {"nodeSelector": {"zone": "a"}},
        {"tolerations": [{"operator": "Exists", "key": "zone"}]},
        {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
        {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "podAffinityTerm": term}]}}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}}}},
        {"topologySpreadConstraints": [{**term, "maxSkew": 1,
                                        "whenUnsatisfiable": "DoNotSchedule"}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]},
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}]},
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "a"}]},
        {"schedulingGates": [{"name": "gate"}]},
        {"initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always"}]},
        {"containers": [{"name": "c", "image": "x", "ports": [
            {"containerPort": 80, "hostPort": 80}],
            "resources": {"requests": {"example.com/gpu": "1"},
                          "limits": {"example.com/gpu": "1"}}}]},
    )  # fmt: skip
    return {**pod, "spec": spec | values.pick(extras)}


def _spec(**spec: Any) -> Callable[[Values], Raw]:
    return lambda _values: {"spec": spec}


def _fields(**fields: Any) -> Callable[[Values], Raw]:
    return lambda _values: fields


def _workload(**more: Any) -> Callable[[Values], Raw]:
    return _spec(selector=_SELECTOR, template=_TEMPLATE, **more)


_HOOK = {
    "name": "hook.example.com", "clientConfig": {"url": "https://127.0.0.1:1/hook"},
    "sideEffects": "None", "admissionReviewVersions": ["v1"],
    "rules": [{"apiGroups": ["example.com"], "apiVersions": ["*"], "operations": ["CREATE"],
               "resources": ["*"]}],
}  # fmt: skip


def _policy(values: Values) -> Raw:
    """A resource policy with every field of its spec."""
    first = build.a_unit(
        "one",
        values.pick((0, 1, 1_000_000)),
        nodes={"zone": "a"},
        max_count=values.pick((0, 1, 2**31 - 1, None)),
        max_resources={"cpu": values.pick((1, "1500m", "1e99")), "example.com/gpu": 0},
        pod_labels={"unit": "one"},
        pod_annotations={"example.com/unit": "one"},
    )
    policies = ("LackResourceOrExceedMax", "ExceedMax", "LackResourceAndNoTerminating")
    waits = {"policy": "TimeoutOrExceedMax", "timeout": values.pick(("0", "1s", "1h30m"))}
    tries = waits if values.chance(0.5) else {"policy": values.pick(policies)}
    return build.a_resource_policy(
        "policy",
        pods={"app": "web"},
        units=[first, build.a_unit("two", 1, nodes={"zone": "b"})],
        match_label_keys=["pod-template-hash"],
        match_policy={"ignoreTerminatingPod": values.chance(0.5), "ignorePreviousPod": True},
        strategy=values.pick(("prefer", "required")),
        when_try_next_units=tries,
        preempt_policy=values.pick(("AfterAllUnits", "BeforeNextUnit")),
    )


_REFERENCE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}

SEEDS: dict[str, Callable[[Values], Raw]] = {
    "pods": _pod,
    "nodes": lambda values: build.a_node("n", labels={"zone": values.pick(("a", "b"))}),
    "namespaces": lambda _values: build.a_namespace("one"),
    "priorityclasses": lambda values: build.a_priority_class("high", values.pick((1, 1000))),
    "reservations": lambda values: build.a_reservation(
        "r", cpu="1", owner_labels={"app": values.pick(("web", "a"))}
    ),
    "resourcepolicies": _policy,
    "replicasets": lambda values: build.a_replica_set("web", replicas=values.pick((0, 1, 2))),
    "deployments": lambda values: build.a_deployment("web", replicas=values.pick((0, 1, 2))),
    "deviceclasses": lambda _values: devices.a_device_class("gpu"),
    "resourceslices": lambda values: devices.a_slice("s", node="n1", devices=values.pick((1, 3))),
    "resourceclaims": lambda _values: devices.a_claim("c"),
    "resourceclaimtemplates": lambda _values: devices.a_claim_template("ct"),
    "storageclasses": lambda values: storage.a_storage_class("wait", wait=values.chance(0.5)),
    "persistentvolumes": lambda _values: storage.a_volume("v"),
    "persistentvolumeclaims": _spec(
        accessModes=["ReadWriteOnce"], storageClassName="wait",
        resources={"requests": {"storage": "1Gi"}},
    ),
    "poddisruptionbudgets": _spec(selector=_SELECTOR, minAvailable=1),
    "statefulsets": _workload(serviceName="web", replicas=1),
    "daemonsets": _workload(),
    "jobs": _spec(template=_TEMPLATE | {"spec": _TEMPLATE["spec"] | {"restartPolicy": "Never"}}),
    "cronjobs": _spec(schedule="* * * * *", jobTemplate={"spec": {"template": _TEMPLATE}}),
    "replicationcontrollers": _spec(selector={"app": "web"}, template=_TEMPLATE),
    "services": _spec(selector={"app": "web"}, ports=[{"port": 80}]),
    "horizontalpodautoscalers": _spec(scaleTargetRef=_REFERENCE, maxReplicas=3),
    "ingresses": _spec(defaultBackend={"service": {"name": "web", "port": {"number": 80}}}),
    "networkpolicies": _spec(podSelector={}),
    "leases": _spec(holderIdentity="me", leaseDurationSeconds=15),
    "configmaps": _fields(data={"a": "b"}),
    "secrets": _fields(data={"a": "YQ=="}),
    "runtimeclasses": _fields(handler="a"),
    "csidrivers": _spec(attachRequired=True),
    "csinodes": _spec(drivers=[{"name": "disk.example.com", "nodeID": "n1",
                                "allocatable": {"count": 2}}]),
    "csistoragecapacities": _fields(storageClassName="wait", capacity="1Gi"),
    "volumeattachments": _spec(attacher="disk.example.com", nodeName="n1",
                               source={"persistentVolumeName": "v"}),
    "roles": _fields(rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
    "clusterroles": _fields(rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
    "rolebindings": _fields(roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
                                     "name": "a"},
                            subjects=[{"kind": "User", "name": "u",
                                       "apiGroup": "rbac.authorization.k8s.io"}]),
    "clusterrolebindings": _fields(roleRef={"apiGroup": "rbac.authorization.k8s.io",
                                            "kind": "ClusterRole", "name": "a"}),
    "endpointslices": _fields(addressType="IPv4", endpoints=[{"addresses": ["10.0.0.1"]}]),
    "mutatingwebhookconfigurations": _fields(webhooks=[_HOOK]),
    "validatingwebhookconfigurations": _fields(webhooks=[_HOOK]),
    "certificatesigningrequests": _spec(request="YQ==", signerName="example.com/a",
                                        usages=["digital signature"]),
    "events": _fields(involvedObject={"kind": "Pod", "name": "a", "namespace": "default"},
                      reason="Because", type="Normal"),
}  # fmt: skip
"""By plural; objects of other kinds are generated from the schema."""


def seed(values: Values, plural: str) -> Raw | None:
    """Return a small valid object with a random name, or None for a kind without a seed."""
    make = SEEDS.get(plural)
    if make is None:
        return None
    made = copy.deepcopy(make(values))
    meta = dict(made.get("metadata") or {})
    meta.pop("namespace", None)
    return {**made, "metadata": meta | {"name": values.pick(NAMES)}}
