"""Recorded requests of single kinds: their own checks, warnings and verbs.

Each request is (title, method, path, body, query); a path without a leading slash is below the
collection of the kind, and a body that is not a dict is (sample, merge patch).
"""

from __future__ import annotations

from typing import Any

from apiserver.recorded_lifecycle import DRY, MERGE, Kind, Lifecycle, merged
from apiserver.sample_objects import binding, pod

Raw = dict[str, Any]
_NONE: dict[str, str] = {}
_PODS = "/api/v1/namespaces/default/pods"
_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_PROBE = {"tcpSocket": {"port": 80}}
_CONTAINER = {"name": "c", "image": "nginx"}


def _with(**container: Any) -> Raw:
    return {"spec": {"containers": [_CONTAINER | container]}}


def _template(**container: Any) -> Raw:
    return {"spec": {"template": _with(**container)}}


def _new(title: str, change: Raw) -> tuple[str, str, str, Any, Raw]:
    """Create the sample with a change, as a dry run and with another name."""
    return title, "POST", "", merged({"metadata": {"name": "extra"}}, change), DRY


_TAINT = {"key": "k", "value": "v", "effect": "NoExecute"}
_WORKLOAD = (
    _new("negative replicas", {"spec": {"replicas": -1}}),
    _new("negative minReadySeconds", {"spec": {"minReadySeconds": -1}}),
    _new("negative revisionHistoryLimit", {"spec": {"revisionHistoryLimit": -1}}),
    _new("another selector", {"spec": {"selector": {"matchLabels": {"app": "other"}}}}),
    _new("an empty selector", {"spec": {"selector": {"matchLabels": None}}}),
    _new("a wrong operator", {"spec": {"selector": {"matchExpressions": [
        {"key": "a", "operator": "Near", "values": ["b"]}]}}}),
    _new("no containers", {"spec": {"template": {"spec": {"containers": []}}}}),
    _new("a probe", _template(livenessProbe=_PROBE)),
    _new("a wrong percentage", {"spec": {"updateStrategy": {
        "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "150%"}}}}),
)  # fmt: skip
_ROLE_BINDING = (
    _new("a wrong group", {"roleRef": {"apiGroup": "x"}}),
    _new("a wrong kind", {"roleRef": {"kind": "Pod"}}),
    _new("a Role", {"roleRef": {"kind": "Role"}}),
    _new("no name", {"roleRef": {"name": ""}}),
    _new("a wrong subject", {"subjects": [{"kind": "Pod", "name": "a"}]}),
    _new("a nameless subject", {"subjects": [{"kind": "User"}]}),
    _new("an account nowhere", {"subjects": [{"kind": "ServiceAccount", "name": "a"}]}),
    _new("a path as a name", {"metadata": {"name": "a/b"}}),
)
_WIDGETS = {"metadata": {"name": "widgets.example.com"}}
_FREEZING = (
    ("freeze", "POST", "", {"metadata": {"name": "frozen"}, "immutable": True}, _NONE),
    ("change data", "PATCH", "frozen", {"data": {"b": "Mw=="}}, _NONE),
    ("thaw", "PATCH", "frozen", {"immutable": False}, _NONE),
    ("label it", "PATCH", "frozen", {"metadata": {"labels": {"a": "b"}}}, _NONE),
    ("delete it", "DELETE", "frozen", None, _NONE),
)

EXTRAS: dict[str, tuple[tuple[str, str, str, Any, Raw], ...]] = {
    "pods": (
        _new("no containers", {"spec": {"containers": []}}),
        _new("two of a name", {"spec": {"containers": [_CONTAINER, _CONTAINER]}}),
        _new("no image", _with(image="")),
        _new("a wrong quantity", _with(resources={"requests": {"cpu": "x"}})),
        _new("more requested than allowed",
             _with(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
        _new("limits alone", _with(resources={"limits": {"cpu": "1", "memory": "1Gi"}})),
        _new("a wrong port", _with(ports=[{"containerPort": 0}])),
        _new("a wrong restart policy", {"spec": {"restartPolicy": "Sometimes"}}),
        _new("no such class", {"spec": {"priorityClassName": "none"}}),
        _new("a priority of its own", {"spec": {"priority": 7}}),
        _new("a class", {"spec": {"priorityClassName": "system-node-critical"}}),
        _new("gates", {"spec": {"schedulingGates": [{"name": "g"}]}}),
        _new("gates and a node", {"spec": {"schedulingGates": [{"name": "g"}], "nodeName": "n"}}),
        _new("a wrong toleration", {"spec": {"tolerations": [{"operator": "Near"}]}}),
        _new("a wrong skew", {"spec": {"topologySpreadConstraints": [{
            "maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}}),
        _new("a wrong affinity", {"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}}),
        _new("a wrong anti-affinity", {"spec": {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}}}),
        _new("probes", _with(livenessProbe=_PROBE, readinessProbe=_PROBE, startupProbe=_PROBE)),
        _new("hooks", _with(lifecycle={"preStop": _PROBE})),
        _new("a probe of an init container", {"spec": {"initContainers": [
            {"name": "i", "image": "x", "restartPolicy": "Always", "livenessProbe": _PROBE}]}}),
        _new("a deadline", {"spec": {"activeDeadlineSeconds": 5}}),
        _new("readiness gates", {"spec": {"readinessGates": [{"conditionType": "a"}]}}),
        _new("a runtime class", {"spec": {"runtimeClassName": "a"}}),
        _new("an ephemeral volume", {"spec": {"volumes": [{"name": "v", "ephemeral": {
            "volumeClaimTemplate": {"spec": {}}}}]}}),
        _new("an operating mode", {"metadata": {"labels": {
            "scheduling.koordinator.sh/operating-mode": "Reservation"}}}),
        ("make one", "POST", "", pod("one", schedulingGates=[{"name": "g"}]), _NONE),
        ("bind it with a gate", "POST", "one/binding", binding("one", "n1"), _NONE),
        ("add a gate", "PATCH", "one",
         {"spec": {"schedulingGates": [{"name": "g"}, {"name": "h"}]}}, _NONE),
        ("select nodes", "PATCH", "one", {"spec": {"nodeSelector": {"a": "b"}}}, DRY),
        ("open the gate", "PATCH", "one", {"spec": {"schedulingGates": None}}, _NONE),
        ("select nodes", "PATCH", "one", {"spec": {"nodeSelector": {"a": "c"}}}, _NONE),
        ("bind another", "POST", "one/binding", binding("other", "n1"), _NONE),
        ("bind to nothing", "POST", "one/binding", binding("one", ""), _NONE),
        ("bind, dry run", "POST", "one/binding", binding("one", "n1"), DRY),
        ("bind", "POST", "one/binding", binding("one", "n1"), _NONE),
        ("bind again", "POST", "one/binding", binding("one", "n2"), _NONE),
        ("get it", "GET", "one", None, _NONE),
        ("by its node", "GET", "", None, {"fieldSelector": "spec.nodeName=n1"}),
        ("read its log", "GET", "one/log", None, _NONE),
        ("change its image", "PATCH", "one", _with(image="other"), _NONE),
        ("change its command", "PATCH", "one", _with(command=["x"]), _NONE),
        ("add a toleration", "PATCH", "one",
         {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}, _NONE),
        ("shorten its deadline", "PATCH", "one", {"spec": {"activeDeadlineSeconds": 9}}, DRY),
        ("run it", "PATCH", "one/status", {"status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True"}]}}, _NONE),
        ("cover it", "POST", _BUDGETS, {"metadata": {"name": "all"}, "spec": {
            "minAvailable": 1, "selector": {}}}, _NONE),
        ("evict too early", "POST", "one/eviction", {"metadata": {"name": "one"}}, _NONE),
        ("no room", "PATCH", f"{_BUDGETS}/all/status", {"status": {
            "observedGeneration": 1, "disruptionsAllowed": 0, "desiredHealthy": 1,
            "currentHealthy": 1, "expectedPods": 1}}, _NONE),
        ("evict without room", "POST", "one/eviction", {"metadata": {"name": "one"}}, _NONE),
        ("room", "PATCH", f"{_BUDGETS}/all/status", {"status": {"disruptionsAllowed": 1}}, _NONE),
        ("evict, dry run", "POST", "one/eviction", {"metadata": {"name": "one"}}, DRY),
        ("evict", "POST", "one/eviction", {"metadata": {"name": "one"}}, _NONE),
        ("it lingers", "GET", "one", None, _NONE),
        ("what is left", "GET", f"{_BUDGETS}/all", None, _NONE),
        ("less grace", "DELETE", "one", {"gracePeriodSeconds": 5}, _NONE),
        ("more grace", "DELETE", "one", {"gracePeriodSeconds": 50}, _NONE),
        ("no grace", "DELETE", "one", {"gracePeriodSeconds": 0}, _NONE),
        ("uncover", "DELETE", f"{_BUDGETS}/all", None, _NONE),
    ),
    "nodes": (
        _new("a taint", {"spec": {"taints": [_TAINT]}}),
        _new("a wrong taint", {"spec": {"taints": [_TAINT | {"effect": "Near"}]}}),
        _new("a taint twice", {"spec": {"taints": [_TAINT, _TAINT]}}),
        _new("a wrong amount", {"status": {"allocatable": {"cpu": "x"}}}),
        _new("a negative amount", {"status": {"capacity": {"cpu": "-1"}}}),
    ),
    "namespaces": (
        _new("a subdomain", {"metadata": {"name": "a.b"}}),
        ("delete default", "DELETE", "default", None, _NONE),
        ("delete kube-system", "DELETE", "kube-system", None, _NONE),
        ("make one", "POST", "", {"metadata": {"name": "going"}}, _NONE),
        ("delete it", "DELETE", "going", None, _NONE),
        ("delete it again", "DELETE", "going", None, _NONE),
        ("create in it", "POST", "/api/v1/namespaces/going/configmaps",
         {"metadata": {"name": "c"}}, _NONE),
        ("its finalizers by update", "PATCH", "going", {"spec": {"finalizers": []}}, _NONE),
        ("finalize", "PUT", "going/finalize", {"metadata": {"name": "going"}, "spec": {}}, _NONE),
        ("it is gone", "GET", "going", None, _NONE),
    ),
    "configmaps": _FREEZING,
    "secrets": (
        *_FREEZING,
        _new("a token", {"type": "kubernetes.io/service-account-token"}),
        _new("text", {"stringData": {"b": "text"}}),
        _new("no base64", {"data": {"a": "?"}}),
    ),
    "deployments": (
        *_WORKLOAD,
        _new("recreate", {"spec": {"strategy": {"type": "Recreate"}}}),
        _new("no such strategy", {"spec": {"strategy": {"type": "Slowly"}}}),
        _new("a wrong surge", {"spec": {"strategy": {"rollingUpdate": {"maxSurge": "x"}}}}),
        _new("recreate with limits", {"spec": {"strategy": {
            "type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}}),
        _new("nothing moves", {"spec": {"strategy": {"rollingUpdate": {
            "maxSurge": 0, "maxUnavailable": "0%"}}}}),
        _new("a short deadline", {"spec": {"progressDeadlineSeconds": 5, "minReadySeconds": 5}}),
    ),
    "replicasets": _WORKLOAD,
    "statefulsets": _WORKLOAD,
    "daemonsets": _WORKLOAD,
    "poddisruptionbudgets": (
        _new("both", {"spec": {"maxUnavailable": 1}}),
        _new("negative", {"spec": {"minAvailable": -1}}),
        _new("a wrong percentage", {"spec": {"minAvailable": "101%"}}),
        _new("a wrong selector", {"spec": {"selector": {"matchExpressions": [
            {"key": "a", "operator": "Near"}]}}}),
        _new("a wrong policy", {"spec": {"unhealthyPodEvictionPolicy": "Never"}}),
    ),
    "rolebindings": _ROLE_BINDING,
    "clusterrolebindings": _ROLE_BINDING,
    "priorityclasses": (
        _new("a system name", {"metadata": {"name": "system-mine"}}),
        _new("too high", {"value": 1_000_000_001}),
        _new("a wrong policy", {"preemptionPolicy": "Sometimes"}),
        ("a default", "POST", "", {"metadata": {"name": "first"}, "value": 1,
                                   "globalDefault": True}, _NONE),
        ("another default", "POST", "", {"metadata": {"name": "second"}, "value": 2,
                                         "globalDefault": True}, _NONE),
        ("a pod of it", "POST", _PODS, pod("p"), DRY),
        ("another value", "PATCH", "first", {"value": 2}, _NONE),
        ("delete it", "DELETE", "first", None, _NONE),
    ),
    "resourceslices": (
        _new("binding conditions", {"spec": {"devices": [
            {"name": "a", "bindingConditions": ["x"], "bindingFailureConditions": ["y"]}]}}),
    ),
    "resourcepolicies": (
        _new("ignorePreviousPod", {"spec": {"matchPolicy": {"ignorePreviousPod": True}}}),
        _new("preemptPolicy", {"spec": {"preemptPolicy": "BeforeNextUnit"}}),
        _new("whenTryNextUnits", {"spec": {"whenTryNextUnits": {"policy": "ExceedMax"}}}),
        _new("more of units", {"spec": {"units": [{
            "maxCount": 1, "maxResources": {"cpu": "1"}, "podAnnotations": {"a": "b"},
            "podLabels": {"a": "b"}, "nodeSelector": {"matchLabels": {"a": "b"}}}]}}),
        _new("no units", {"spec": {"units": []}}),
        _new("names that are not unique", {"spec": {"units": [{"name": "a"}, {"name": "a"}]}}),
        _new("a key in podSelector too", {"spec": {"matchLabelKeys": ["app"]}}),
        _new("a negative amount", {"spec": {"units": [{"maxResources": {"cpu": -1}}]}}),
    ),
    "reservations": (
        _new("no owners", {"spec": {"owners": []}}),
        _new("no template", {"spec": {"template": None}}),
        _new("a wrong quantity", {"spec": {"template": {"spec": {"containers": [
            _CONTAINER | {"resources": {"requests": {"cpu": "x"}}}]}}}}),
        _new("an unknown field", {"spec": {"template": {"spec": {"nonsense": 1}}}}),
        _new("both ends", {"spec": {"expires": "2024-01-01T00:00:00Z"}}),
        _new("a wrong policy", {"spec": {"allocatePolicy": "Sometimes"}}),
        _new("a wrong duration", {"spec": {"ttl": "soon"}}),
        _new("a node of its own", {"spec": {"template": {"spec": {"nodeName": "n"}}}}),
        _new("the default scheduler", {"spec": {"template": {"spec": {
            "schedulerName": "other"}}}}),
        _new("nothing requested", {"spec": {"template": {"spec": {"containers": [_CONTAINER]}}}}),
    ),
    "customresourcedefinitions": (
        _new("as it is", _WIDGETS),
        _new("a webhook", _WIDGETS | {"spec": {"conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x/y"}}}}}),
        _new("a wrong name", {"metadata": {"name": "other.example.com"}}),
        _new("another group", _WIDGETS | {"spec": {"group": "other.example.com"}}),
        _new("a group of Kubernetes", {"metadata": {"name": "widgets.apps.k8s.io"},
                                       "spec": {"group": "apps.k8s.io"}}),
        _new("a wrong scope", _WIDGETS | {"spec": {"scope": "World"}}),
        _new("no versions", _WIDGETS | {"spec": {"versions": []}}),
        _new("no kind", _WIDGETS | {"spec": {"names": {"kind": ""}}}),
        _new("no schema", _WIDGETS | {"spec": {"versions": [
            {"name": "v1", "served": True, "storage": True}]}}),
    ),
    "gadgets": (
        _new("too big", {"spec": {"size": 100}}),
        _new("too small", {"spec": {"size": 0}}),
        _new("a wrong colour", {"spec": {"colour": "green"}}),
        _new("a part twice", {"spec": {"parts": [{"name": "a"}, {"name": "a"}]}}),
        _new("a nameless part", {"spec": {"parts": [{"weight": 1}]}}),
    ),
}  # fmt: skip


async def record_extras(lifecycle: Lifecycle, kind: Kind) -> None:
    """Send the extra requests of a kind."""
    for title, method, path, change, query in EXTRAS.get(kind.plural, ()):
        where = path if path.startswith("/") else "/".join(filter(None, (lifecycle.all, path)))
        body = change
        if method == "POST" and not path:
            body = merged(lifecycle.sample, change)
        await lifecycle.to.ask(
            title, method, where, body, MERGE if method == "PATCH" else None, **query
        )
