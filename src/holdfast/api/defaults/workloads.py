"""Defaults of workload kinds and of HorizontalPodAutoscaler."""

from __future__ import annotations

from holdfast.api.decode import JsonObject
from holdfast.api.defaults.pods import default_pod_spec
from holdfast.api.defaults.raw_fields import ensure_map, set_defaults, set_null_defaults

_MAX_INT32 = 2**31 - 1
_PERIOD = 15


def _template(spec: JsonObject) -> None:
    default_pod_spec(ensure_map(ensure_map(spec, "template"), "spec"))


def default_deployment(raw: JsonObject) -> None:
    """Default a Deployment: 25 % surge and unavailable, ten old revisions."""
    spec = ensure_map(raw, "spec")
    set_defaults(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = ensure_map(spec, "strategy")
    set_defaults(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        set_defaults(ensure_map(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    _template(spec)


def default_replica_set(raw: JsonObject) -> None:
    """Default a ReplicaSet."""
    spec = ensure_map(raw, "spec")
    set_defaults(spec, replicas=1)
    _template(spec)


def default_stateful_set(raw: JsonObject) -> None:
    """Default a StatefulSet, without its volume claim templates."""
    spec = ensure_map(raw, "spec")
    set_defaults(spec, podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10)
    strategy = ensure_map(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        ensure_map(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        set_defaults(strategy["rollingUpdate"], partition=0)
    retention = ensure_map(spec, "persistentVolumeClaimRetentionPolicy")
    set_defaults(retention, whenDeleted="Retain", whenScaled="Retain")
    _template(spec)


def default_daemon_set(raw: JsonObject) -> None:
    """Default a DaemonSet: at most one unavailable pod."""
    spec = ensure_map(raw, "spec")
    set_defaults(spec, revisionHistoryLimit=10)
    strategy = ensure_map(spec, "updateStrategy")
    set_defaults(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        set_defaults(ensure_map(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    _template(spec)


def default_replication_controller(raw: JsonObject) -> None:
    """Default a ReplicationController: selector and labels come from the template."""
    spec = ensure_map(raw, "spec")
    set_defaults(spec, replicas=1)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        metadata = ensure_map(raw, "metadata")
        spec["selector"] = spec.get("selector") or dict(labels)
        metadata["labels"] = metadata.get("labels") or dict(labels)
    if spec.get("template") is not None:
        _template(spec)


def default_pod_template(raw: JsonObject) -> None:
    """Default a PodTemplate."""
    _template(raw)


def default_job(raw: JsonObject) -> None:
    """Default a Job; without completions and parallelism it runs one pod."""
    spec = ensure_map(raw, "spec")
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    per_index = spec.get("backoffLimitPerIndex") is not None
    no_policy = spec.get("podFailurePolicy") is None
    set_null_defaults(
        spec,
        parallelism=1,
        backoffLimit=_MAX_INT32 if per_index else 6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="TerminatingOrFailed" if no_policy else "Failed",
        manualSelector=False,
    )
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            set_defaults(pattern, status="True")
    _template(spec)


def default_cron_job(raw: JsonObject) -> None:
    """Default a CronJob; defaults of its Jobs are set when those are created."""
    spec = ensure_map(raw, "spec")
    set_defaults(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    _template(ensure_map(ensure_map(spec, "jobTemplate"), "spec"))


def default_autoscaler(raw: JsonObject) -> None:
    """Default a HorizontalPodAutoscaler: at least one pod, target 80 % cpu utilization."""
    spec = ensure_map(raw, "spec")
    set_defaults(spec, minReplicas=1)
    if not raw["apiVersion"].endswith("/v2"):
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        percent = {"type": "Percent", "value": 100, "periodSeconds": _PERIOD}
        pods = {"type": "Pods", "value": 4, "periodSeconds": _PERIOD}
        set_defaults(
            ensure_map(behavior, "scaleUp"),
            stabilizationWindowSeconds=0,
            selectPolicy="Max",
            policies=[pods, percent],
        )
        set_defaults(
            ensure_map(behavior, "scaleDown"), selectPolicy="Max", policies=[dict(percent)]
        )
