"""A sequence of named requests whose responses are compared with upstream."""

from apiserver.sample_objects import CONFIGMAPS, NAMESPACES, PODS, binding, configmap, pod

MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
NOTHING = "/api/v1/namespaces/default/nothings"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SERVICES = "/api/v1/namespaces/default/services"
NODES = "/api/v1/nodes"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
DEPLOYMENT = {"metadata": {"name": "d"}, "spec": {
    "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}  # fmt: skip


def held(name):
    body = configmap(name)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    return body


# Reasons why a response differs from upstream's on purpose.
GO = "upstream's message contains Go types or source files"
CLIENT = "upstream returns 500 for a mistake of the client; we return 400 or 422"
FORMS = "we do not encode protobuf"
DIFF = "upstream adds a diff of Go structs"
ETCD = "upstream's message contains etcd keys"
TWICE = "upstream lists the same cause twice"
TAINT = "nodes are tainted not-ready by our node controller, not by admission"

STEPS = [
    # method, path, body, headers, query, why the response differs (if it does)
    ("POST", PODS, pod("a"), {}, {}),
    ("POST", PODS, pod("a"), {}, {}),
    ("GET", f"{PODS}/none", None, {}, {}),
    ("GET", NOTHING, None, {}, {}),
    ("POST", PODS, {"metadata": {}}, {}, {}),
    ("POST", PODS, pod("UPPER"), {}, {}),
    ("POST", PODS, {"metadata": {"name": "x"}, "spec": {}}, {}, {}),
    ("POST", PODS, configmap("x"), {}, {}),
    ("POST", PODS, {**pod("x"), "apiVersion": "v2"}, {}, {}, GO),
    ("POST", PODS, {**pod("x"), "apiVersion": "apps/v1"}, {}, {}, GO),
    ("POST", PODS, b"{", {}, {}, GO),
    ("POST", PODS, b"[1]", {}, {}, GO),
    ("POST", PODS, b"", {}, {}),
    ("POST", "/api/v1/namespaces/nowhere/pods", pod("x"), {}, {}),
    ("POST", PODS, {**pod("x"), "metadata": {"name": "x", "namespace": "y"}}, {}, {}),
    ("POST", PODS, {**pod("x"), "metadata": {"name": "x", "resourceVersion": "1"}}, {}, {}, CLIENT),
    ("POST", PODS, pod("x", priorityClassName="none"), {}, {}),
    ("POST", PODS, pod("x", priority=5), {}, {}),
    ("POST", PODS, pod("x", foo=1), {}, {"fieldValidation": "Strict"}),
    ("POST", PODS, pod("x", foo=1), {}, {"fieldValidation": "Nonsense"}),
    ("POST", PODS, pod("x"), {}, {"dryRun": "Some"}),
    ("POST", PODS, pod("x"), {}, {"dryRun": "All"}),
    ("POST", PODS, b"x", {"content-type": "text/csv"}, {}),
    ("GET", PODS, None, {"accept": "image/png"}, {}, FORMS),
    ("GET", f"{PODS}/a", None, {}, {"resourceVersion": "abc"}, CLIENT),
    ("GET", PODS, None, {}, {"fieldSelector": "spec.foo=1"}),
    ("GET", PODS, None, {}, {"fieldSelector": "nonsense"}),
    ("GET", PODS, None, {}, {"labelSelector": "a in"}),
    ("GET", PODS, None, {}, {"labelSelector": "a=b=c"}),
    ("GET", PODS, None, {}, {"limit": "x"}),
    ("GET", PODS, None, {}, {"continue": "!!"}, GO),
    ("GET", PODS, None, {}, {"resourceVersion": "abc"}),
    ("GET", PODS, None, {}, {"resourceVersionMatch": "Exact"}),
    ("GET", PODS, None, {}, {"resourceVersion": "0", "resourceVersionMatch": "Exact"}),
    ("GET", PODS, None, {}, {"resourceVersion": "1", "resourceVersionMatch": "Nearly"}),
    ("GET", PODS, None, {}, {"sendInitialEvents": "true"}),
    ("GET", PODS, None, {}, {"watch": "true", "sendInitialEvents": "true"}),
    ("GET", PODS, None, {}, {"watch": "true", "resourceVersionMatch": "NotOlderThan"}),
    ("GET", PODS, None, {}, {"watch": "true", "resourceVersion": "x"}, CLIENT),
    ("PUT", f"{PODS}/a", pod("b"), {}, {}),
    ("PUT", f"{PODS}/none", pod("none"), {}, {}),
    ("PUT", f"{PODS}/a", pod("a", schedulerName="other"), {}, {}, DIFF),
    ("PUT", PODS, pod("a"), {}, {}),
    ("POST", f"{PODS}/a", pod("a"), {}, {}),
    ("DELETE", f"{PODS}/none", None, {}, {}),
    ("POST", f"{PODS}/a/nothing", {}, {}, {}),
    ("POST", f"{PODS}/a/binding", binding("b", "n1"), {}, {}),
    ("POST", f"{PODS}/a/binding", binding("a", ""), {}, {}, CLIENT),
    ("POST", f"{PODS}/a/binding", {**binding("a", "n"), "target": {"kind": "Pod", "name": "n"}},
     {}, {}, CLIENT),
    ("POST", f"{PODS}/a/binding", binding("a", "n1", uid="other"), {}, {}, ETCD),
    ("POST", f"{PODS}/a/binding", binding("a", "n1", resourceVersion="1"), {}, {}, ETCD),
    ("POST", f"{PODS}/none/binding", binding("none", "n1"), {}, {}),
    ("POST", f"{PODS}/a/binding", binding("a", "n1"), {}, {}),
    ("POST", f"{PODS}/a/binding", binding("a", "n2"), {}, {}),
    ("POST", PODS, pod("gated", schedulingGates=[{"name": "g"}]), {}, {}),
    ("POST", f"{PODS}/gated/binding", binding("gated", "n1"), {}, {}),
    ("PATCH", f"{PODS}/gated", {"spec": {"schedulingGates": [{"name": "g"}, {"name": "h"}]}},
     MERGE, {}),
    ("PATCH", f"{PODS}/gated", {"spec": {"schedulingGates": None}}, MERGE, {}),
    ("GET", f"{PODS}/gated", None, {}, {}),
    ("DELETE", f"{PODS}/gated", None, {}, {}),
    ("DELETE", f"{PODS}/a", {"preconditions": {"uid": "wrong"}}, {}, {}),
    ("DELETE", f"{PODS}/a", {"preconditions": {"resourceVersion": "1"}}, {}, {}),
    ("DELETE", f"{PODS}/a", {"propagationPolicy": "Sideways"}, {}, {}),
    ("DELETE", f"{PODS}/a", {"propagationPolicy": "Orphan", "orphanDependents": True}, {}, {}),
    ("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 20}, {}, {}),
    ("POST", f"{PODS}/a/binding", binding("a", "n3"), {}, {}),
    ("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0}, {}, {}),
    ("GET", f"{PODS}/a", None, {}, {}),
    ("POST", CONFIGMAPS, configmap("c", x="1"), {}, {}),
    ("PATCH", f"{CONFIGMAPS}/c", [{"op": "test", "path": "/data/x", "value": "2"}], JSON_PATCH, {}),
    ("PATCH", f"{CONFIGMAPS}/c", [{"op": "remove", "path": "/nothing"}], JSON_PATCH, {}),
    ("PATCH", f"{CONFIGMAPS}/c", [{"op": "nonsense", "path": "/a"}], JSON_PATCH, {}),
    ("PATCH", f"{CONFIGMAPS}/c", {"op": "add"}, JSON_PATCH, {}),
    ("PATCH", f"{CONFIGMAPS}/c", [1], MERGE, {}),
    ("PATCH", f"{CONFIGMAPS}/c", {"metadata": {"name": "b"}}, MERGE, {}),
    ("PATCH", f"{CONFIGMAPS}/c", {"metadata": {"resourceVersion": "1"}}, MERGE, {}),
    ("PATCH", f"{CONFIGMAPS}/c", {"metadata": {"uid": "x"}}, MERGE, {}, TWICE),
    ("PATCH", f"{CONFIGMAPS}/c", {"data": {"y": "2"}}, MERGE, {}),
    ("PATCH", f"{CONFIGMAPS}/c", {"data": {"y": None}}, STRATEGIC, {}),
    ("PATCH", f"{CONFIGMAPS}/c", {}, {"content-type": "text/plain"}, {}),
    ("PATCH", f"{CONFIGMAPS}/none", {"data": {"y": "2"}}, MERGE, {}),
    ("PUT", f"{CONFIGMAPS}/c",
     {**configmap("c"), "metadata": {"name": "c", "uid": "x"}}, {}, {}, ETCD),
    ("PUT", f"{CONFIGMAPS}/c",
     {**configmap("c"), "metadata": {"name": "c", "resourceVersion": "1"}}, {}, {}),
    ("PUT", f"{CONFIGMAPS}/c",
     {**configmap("c"), "metadata": {"name": "c", "namespace": "x"}}, {}, {}),
    ("POST", CONFIGMAPS, held("held"), {}, {}),
    ("DELETE", f"{CONFIGMAPS}/held", None, {}, {}),
    ("PATCH", f"{CONFIGMAPS}/held",
     {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}, MERGE, {}, TWICE),
    ("PATCH", f"{CONFIGMAPS}/held", {"metadata": {"finalizers": None}}, MERGE, {}),
    ("GET", f"{CONFIGMAPS}/held", None, {}, {}),
    ("DELETE", f"{CONFIGMAPS}/c", None, {}, {}),
    ("POST", CONFIGMAPS, {"metadata": {"name": "l", "labels": {"a b": "c"}}}, {}, {}),
    ("POST", CONFIGMAPS, {"metadata": {"name": "l", "labels": {"a": "c d"}}}, {}, {}),
    ("POST", CONFIGMAPS, {"metadata": {"name": "l", "annotations": {"a b": "c"}}}, {}, {}),
    ("POST", NAMESPACES, {"metadata": {"name": "going"}}, {}, {}),
    ("POST", NAMESPACES, {"metadata": {"name": "a.b"}}, {}, {}),
    ("DELETE", f"{NAMESPACES}/going", None, {}, {}),
    ("DELETE", f"{NAMESPACES}/going", None, {}, {}),
    ("POST", f"{NAMESPACES}/going/configmaps", configmap("x"), {}, {}),
    ("DELETE", f"{NAMESPACES}/default", None, {}, {}),
    ("POST", LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}, {}, {}),
    ("PUT", f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "you"}}, {}, {}),
    ("POST", DEPLOYMENTS, DEPLOYMENT, {}, {}),
    ("PATCH", f"{DEPLOYMENTS}/d", {"spec": {"selector": {"matchLabels": {"x": "y"}}}}, MERGE, {}),
    ("PATCH", f"{DEPLOYMENTS}/d", {"spec": {"replicas": 3}}, MERGE, {}),
    ("GET", f"{DEPLOYMENTS}/d/scale", None, {}, {}),
    ("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}, MERGE, {}),
    ("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 4}}, MERGE, {}),
    ("PATCH", f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 4}}, MERGE, {}),
    ("DELETE", f"{DEPLOYMENTS}/d", {"propagationPolicy": "Foreground"}, {}, {}),
    ("POST", CLASSES, {"metadata": {"name": "system-mine"}, "value": 1}, {}, {}),
    ("POST", CLASSES, {"metadata": {"name": "high"}, "value": 1_000_000_001}, {}, {}),
    ("POST", CLASSES, {"metadata": {"name": "low"}, "value": 7}, {}, {}),
    ("PATCH", f"{CLASSES}/low", {"value": 8}, MERGE, {}),
    ("POST", NODES,
     {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}}, {}, {}, TAINT),
    ("PATCH", f"{NODES}/n1", {"spec": {"unschedulable": True}}, STRATEGIC, {}, TAINT),
    ("PATCH", f"{NODES}/n1/status", {"status": {"capacity": {"cpu": "5"}}}, MERGE, {}, TAINT),
    ("DELETE", f"{NODES}/n1", None, {}, {}),
    ("GET", "/apis/none.example.com/v1/things", None, {}, {}),
    ("GET", "/apis/none.example.com", None, {}, {}),
    ("GET", "/nowhere", None, {}, {}),
    ("GET", f"{PODS}/none/log", None, {}, {}),
    ("DELETE", CONFIGMAPS, None, {}, {"labelSelector": "x=y"}),
]  # fmt: skip
