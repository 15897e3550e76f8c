"""Defaults of the kinds that make pods, and of the autoscaler that scales them."""

from __future__ import annotations

from holdfast.api.defaults.filling import Raw, fill, part
from holdfast.api.defaults.pods import default_pod_spec

_MAX_INT32 = 2**31 - 1
_PERIOD = 15


def _template(spec: Raw) -> None:
    default_pod_spec(part(part(spec, "template"), "spec"))


def default_deployment(raw: Raw) -> None:
    """Default a Deployment: roll a quarter at a time, keep ten old versions."""
    spec = part(raw, "spec")
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = part(spec, "strategy")
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(part(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    _template(spec)


def default_replica_set(raw: Raw) -> None:
    """Default a ReplicaSet."""
    spec = part(raw, "spec")
    fill(spec, replicas=1)
    _template(spec)


def default_stateful_set(raw: Raw) -> None:
    """Default a StatefulSet, its claim templates aside."""
    spec = part(raw, "spec")
    fill(spec, podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10)
    strategy = part(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        part(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        fill(strategy["rollingUpdate"], partition=0)
    retention = part(spec, "persistentVolumeClaimRetentionPolicy")
    fill(retention, whenDeleted="Retain", whenScaled="Retain")
    _template(spec)


def default_daemon_set(raw: Raw) -> None:
    """Default a DaemonSet: replace one pod at a time."""
    spec = part(raw, "spec")
    fill(spec, revisionHistoryLimit=10)
    strategy = part(spec, "updateStrategy")
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(part(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    _template(spec)


def default_replication_controller(raw: Raw) -> None:
    """Default a ReplicationController: selector and labels come from the template."""
    spec = part(raw, "spec")
    fill(spec, replicas=1)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        metadata = part(raw, "metadata")
        spec["selector"] = spec.get("selector") or dict(labels)
        metadata["labels"] = metadata.get("labels") or dict(labels)
    if spec.get("template") is not None:
        _template(spec)


def default_pod_template(raw: Raw) -> None:
    """Default a PodTemplate."""
    _template(raw)


def default_job(raw: Raw) -> None:
    """Default a Job; one that says neither how many nor how wide runs one pod once."""
    spec = part(raw, "spec")
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    per_index = spec.get("backoffLimitPerIndex") is not None
    fill(
        spec,
        parallelism=1,
        backoffLimit=_MAX_INT32 if per_index else 6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
        manualSelector=False,
    )
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            fill(pattern, status="True")
    _template(spec)


def default_cron_job(raw: Raw) -> None:
    """Default a CronJob; its job template keeps what the Job itself will be given."""
    spec = part(raw, "spec")
    fill(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    _template(part(part(spec, "jobTemplate"), "spec"))


def default_autoscaler(raw: Raw) -> None:
    """Default a HorizontalPodAutoscaler: at least one pod, at 80 % of its cpu."""
    spec = part(raw, "spec")
    fill(spec, minReplicas=1)
    if not raw["apiVersion"].endswith("/v2"):
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        percent = {"type": "Percent", "value": 100, "periodSeconds": _PERIOD}
        pods = {"type": "Pods", "value": 4, "periodSeconds": _PERIOD}
        fill(
            part(behavior, "scaleUp"),
            stabilizationWindowSeconds=0,
            selectPolicy="Max",
            policies=[pods, percent],
        )
        fill(part(behavior, "scaleDown"), selectPolicy="Max", policies=[dict(percent)])
