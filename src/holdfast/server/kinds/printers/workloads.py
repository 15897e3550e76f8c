"""Printers of workloads, jobs, disruption budgets and autoscalers."""

from __future__ import annotations

from typing import Any

from holdfast.api.timestamps import parse_rfc3339
from holdfast.server.tables.printer import (
    NONE,
    UNKNOWN,
    UNSET,
    Obj,
    Printer,
    TableCells,
    age,
    age_text,
    columns,
    container_cells,
    holds,
    items,
    labels_text,
    meta,
    name,
    or_else,
    part,
    selector_text,
    since,
)

_WIDE = ("+Containers", "+Images", "+Selector")


def _count(obj: Obj, *path: str) -> int:
    return part(obj, *path[:-1]).get(path[-1]) or 0


def _wide(obj: Obj) -> TableCells:
    return [
        *container_cells(part(obj, "spec", "template")),
        selector_text(part(obj, "spec", "selector")),
    ]


def _deployment(obj: Obj, now: float) -> TableCells:
    # As upstream: only a Deployment prints an empty selector as "" instead of <none>.
    names, images, selector = _wide(obj)
    return [
        name(obj),
        f"{_count(obj, 'status', 'readyReplicas')}/{_count(obj, 'spec', 'replicas')}",
        _count(obj, "status", "updatedReplicas"),
        _count(obj, "status", "availableReplicas"),
        age(obj, now),
        names,
        images,
        "" if selector == NONE else selector,
    ]


def _replicas(obj: Obj, now: float) -> TableCells:
    return [
        name(obj),
        _count(obj, "spec", "replicas"),
        _count(obj, "status", "replicas"),
        _count(obj, "status", "readyReplicas"),
        age(obj, now),
    ]


def _replicaset(obj: Obj, now: float) -> TableCells:
    return [*_replicas(obj, now), *_wide(obj)]


def _replication_controller(obj: Obj, now: float) -> TableCells:
    template, selector = part(obj, "spec", "template"), part(obj, "spec", "selector")
    return [*_replicas(obj, now), *container_cells(template), labels_text(selector)]


def _statefulset(obj: Obj, now: float) -> TableCells:
    ready = f"{_count(obj, 'status', 'readyReplicas')}/{_count(obj, 'spec', 'replicas')}"
    return [name(obj), ready, age(obj, now), *container_cells(part(obj, "spec", "template"))]


def _daemonset(obj: Obj, now: float) -> TableCells:
    counts = (
        "desiredNumberScheduled", "currentNumberScheduled", "numberReady",
        "updatedNumberScheduled", "numberAvailable",
    )  # fmt: skip
    return [
        name(obj),
        *(_count(obj, "status", field) for field in counts),
        labels_text(part(obj, "spec", "template", "spec", "nodeSelector")),
        age(obj, now),
        *_wide(obj),
    ]


def _job(obj: Obj, now: float) -> TableCells:
    return [name(obj), _job_status(obj), _completions(obj), _duration(obj, now), age(obj, now),
            *_wide(obj)]  # fmt: skip


def _job_status(obj: Obj) -> str:
    for kind in ("Complete", "Failed"):
        if holds(obj, kind):
            return kind
    if meta(obj).get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if holds(obj, kind):
            return kind
    return "Running"


def _completions(obj: Obj) -> str:
    done = _count(obj, "status", "succeeded")
    wanted = part(obj, "spec").get("completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = _count(obj, "spec", "parallelism")
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(obj: Obj, now: float) -> str:
    status = part(obj, "status")
    if not status.get("startTime"):
        return ""
    ended = status.get("completionTime")
    end = parse_rfc3339(ended) if ended else now
    return age_text(end - parse_rfc3339(status["startTime"]))


def _cronjob(obj: Obj, now: float) -> TableCells:
    spec, last = part(obj, "spec"), part(obj, "status").get("lastScheduleTime")
    suspended = spec.get("suspend")
    return [
        name(obj),
        spec.get("schedule", ""),
        or_else(spec.get("timeZone"), NONE),
        UNSET if suspended is None else str(bool(suspended)),
        len(items(obj, "status", "active")),
        since(last, now) if last else NONE,
        age(obj, now),
        *_wide(part(obj, "spec", "jobTemplate")),
    ]


def _revision(obj: Obj, now: float) -> TableCells:
    owner = next((o for o in meta(obj).get("ownerReferences") or () if o.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = f"{owner.get('kind', '')}.{group}" if group else owner.get("kind", "")
        controller = f"{kind.lower()}/{owner.get('name', '')}"
    return [name(obj), controller, obj.get("revision") or 0, age(obj, now)]


def _budget(obj: Obj, now: float) -> TableCells:
    spec = part(obj, "spec")
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        name(obj),
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        _count(obj, "status", "disruptionsAllowed"),
        age(obj, now),
    ]


def _autoscaler(obj: Obj, now: float) -> TableCells:
    spec = part(obj, "spec")
    target = part(spec, "scaleTargetRef")
    return [
        name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(obj),
        str(or_else(spec.get("minReplicas"), UNSET)),
        spec.get("maxReplicas") or 0,
        _count(obj, "status", "currentReplicas"),
        age(obj, now),
    ]


def _targets(obj: Obj) -> str:
    """Return current/target of each metric; autoscaling/v1 has the CPU percentage only."""
    spec, status = part(obj, "spec"), part(obj, "status")
    percent = spec.get("targetCPUUtilizationPercentage")
    if percent is not None:
        current = status.get("currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if current is None else f'{current}%'}/{percent}%"
    now_values = items(obj, "status", "currentMetrics")
    metrics = [
        _metric(metric, now_values[i] if i < len(now_values) else {})
        for i, metric in enumerate(items(obj, "spec", "metrics"))
    ]
    if not metrics:
        return NONE
    text = ", ".join(metrics[:2])
    return f"{text} + {len(metrics) - 2} more..." if len(metrics) > 2 else text


def _metric(metric: Obj, current: Obj) -> str:
    kind = str(metric.get("type", ""))
    field = kind[:1].lower() + kind[1:]
    source = part(metric, field)
    target, value = part(source, "target"), part(current, field, "current")
    average = target.get("averageValue")
    if field in ("resource", "containerResource"):
        if average is not None:
            return f"{source.get('name')}: {or_else(value.get('averageValue'), UNKNOWN)}/{average}"
        return f"{source.get('name')}: {_percent(value, UNKNOWN)}/{_percent(target, '<auto>')}"
    if field == "pods":
        return f"{or_else(value.get('averageValue'), UNKNOWN)}/{average}"
    if field in ("external", "object"):
        if average is not None:
            return f"{or_else(value.get('averageValue'), UNKNOWN)}/{average} (avg)"
        return f"{or_else(value.get('value'), UNKNOWN)}/{target.get('value')}"
    return "<unknown type>"


def _percent(values: dict[str, Any], absent: str) -> str:
    percent = values.get("averageUtilization")
    return absent if percent is None else f"{percent}%"


_REPLICAS = columns("Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", *_WIDE)

DEPLOYMENT = Printer(
    columns("Name", "Ready", "Up-to-date", "Available", "Age", *_WIDE), _deployment
)
REPLICA_SET = Printer(_REPLICAS, _replicaset)
REPLICATION_CONTROLLER = Printer(_REPLICAS, _replication_controller)
STATEFUL_SET = Printer(columns("Name", "Ready", "Age", "+Containers", "+Images"), _statefulset)
DAEMON_SET = Printer(
    columns(
        "Name",
        "Desired:integer",
        "Current:integer",
        "Ready:integer",
        "Up-to-date:integer",
        "Available:integer",
        "Node Selector",
        "Age",
        *_WIDE,
    ),
    _daemonset,
)
CONTROLLER_REVISION = Printer(columns("Name", "Controller", "Revision", "Age"), _revision)
JOB = Printer(columns("Name", "Status", "Completions", "Duration", "Age", *_WIDE), _job)
CRON_JOB = Printer(
    columns(
        "Name",
        "Schedule",
        "Timezone",
        "Suspend:boolean",
        "Active:integer",
        "Last Schedule",
        "Age",
        *_WIDE,
    ),
    _cronjob,
)
DISRUPTION_BUDGET = Printer(
    columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"),
    _budget,
)
AUTOSCALER = Printer(
    columns("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"),
    _autoscaler,
)
