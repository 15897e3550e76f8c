"""A slow count of what quotas should show, from stored objects, without the package ``quota``."""

from __future__ import annotations

import json
from collections import Counter

QUOTAS = {
    "counts": {
        "pods": 6, "count/pods": 9, "services": 3, "services.nodeports": 3, "count/configmaps": 3,
        "persistentvolumeclaims": 3, "requests.storage": 20,
        "gpu.deviceclass.resource.k8s.io/devices": 6,
        "requests.deviceclass.resource.kubernetes.io/gpu": 5,
    },
    "scoped": {"pods": 4, "requests.cpu": 1},
    "deadline": {"pods": 2},
}  # fmt: skip
SCOPES = {"scoped": ["NotBestEffort"], "deadline": ["Terminating"]}
"""Hard limits are whole numbers; cpu is counted in cores."""


def objects(store, group, plural):
    return [json.loads(stored.value) for stored in store.list(group, plural, "default")]


def recount(store):
    """Return the usage of each quota, by key, in whole units; cpu in millicores."""
    found = {name: Counter() for name in QUOTAS}
    for pod in objects(store, "", "pods"):
        found["counts"]["count/pods"] += 1
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        container = pod["spec"]["containers"][0]
        asked = (container.get("resources") or {}).get("requests") or {}
        found["counts"]["pods"] += 1
        if "cpu" in asked:
            found["scoped"]["pods"] += 1
            found["scoped"]["requests.cpu"] += int(asked["cpu"].removesuffix("m"))
        if pod["spec"].get("activeDeadlineSeconds") is not None:
            found["deadline"]["pods"] += 1
    counts = found["counts"]
    for service in objects(store, "", "services"):
        counts["services"] += 1
        if service["spec"].get("type") == "NodePort":
            counts["services.nodeports"] += len(service["spec"]["ports"])
    counts["count/configmaps"] = len(objects(store, "", "configmaps"))
    for claim in objects(store, "", "persistentvolumeclaims"):
        counts["persistentvolumeclaims"] += 1
        counts["requests.storage"] += int(claim["spec"]["resources"]["requests"]["storage"])
    for claim in objects(store, "resource.k8s.io", "resourceclaims"):
        for request in claim["spec"]["devices"]["requests"]:
            count = request["exactly"].get("count", 1)
            counts["gpu.deviceclass.resource.k8s.io/devices"] += count
            counts["requests.deviceclass.resource.kubernetes.io/gpu"] += count
    return found


def shown(store, part):
    """Return what the quotas show in ``status``, by name and key, in the units of ``recount``."""
    return {
        quota["metadata"]["name"]: {
            key: _units(key, text)
            for key, text in ((quota.get("status") or {}).get(part) or {}).items()
        }
        for quota in objects(store, "", "resourcequotas")
    }


def _units(key, text):
    if key.endswith("cpu"):
        return int(text[:-1]) if text.endswith("m") else int(text) * 1000
    return int(float(text.replace("k", "e3")))
