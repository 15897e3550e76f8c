"""Small objects and paths that the tests of this package share."""

from typing import Any

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
NAMESPACES = "/api/v1/namespaces"
APPS = "/apis/apps/v1/namespaces/default"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "nginx"}], **spec},
    }  # fmt: skip


def labelled(name: str, **labels: str) -> dict[str, Any]:
    made = pod(name)
    made["metadata"]["labels"] = labels
    return made


def configmap(name: str = "a", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def binding(name: str, node: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }  # fmt: skip


def reservation(owner=None, **spec):
    owners = [owner or {"object": {"name": "p", "namespace": "default"}}]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "r"}, "spec": {"owners": owners, "template": {"spec": spec}},
    }  # fmt: skip
