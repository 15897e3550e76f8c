"""Printers of nodes, namespaces, events, leases, ConfigMaps, Secrets, quotas, classes."""

from __future__ import annotations

from holdfast.server.tables.printer import (
    NONE,
    UNKNOWN,
    Obj,
    Printer,
    TableCells,
    age,
    columns,
    condition,
    items,
    meta,
    name,
    or_else,
    part,
    since,
)

_ROLE = "node-role.kubernetes.io/"


def _node(obj: Obj, now: float) -> TableCells:
    info = part(obj, "status", "nodeInfo")
    kernel = or_else(info.get("kernelVersion"), UNKNOWN)
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name(obj),
        _node_status(obj),
        ",".join(_roles(obj)) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        or_else(info.get("osImage"), UNKNOWN),
        kernel,
        or_else(info.get("containerRuntimeVersion"), UNKNOWN),
    ]


def _node_status(obj: Obj) -> str:
    ready = condition(obj, "Ready").get("status")
    word = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if part(obj, "spec").get("unschedulable") else word


def _roles(obj: Obj) -> list[str]:
    labels = meta(obj).get("labels") or {}
    roles = {key[len(_ROLE) :] for key in labels if key.startswith(_ROLE)}
    return sorted((roles | {labels.get("kubernetes.io/role") or ""}) - {""})


def _address(obj: Obj, kind: str) -> str:
    for one in items(obj, "status", "addresses"):
        if one.get("type") == kind:
            return str(one.get("address", ""))
    return NONE


def _namespace(obj: Obj, now: float) -> TableCells:
    return [name(obj), part(obj, "status").get("phase", ""), age(obj, now)]


def _event(obj: Obj, now: float) -> TableCells:
    """Return the cells of an event of either group; ``events.k8s.io`` has other field names."""
    involved = part(obj, "involvedObject") or part(obj, "regarding")
    source = part(obj, "source") or part(obj, "deprecatedSource")
    first_at = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp")
    last_at = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    first = since(first_at or obj.get("eventTime"), now)
    last = since(last_at, now) if last_at else first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if obj.get("series"):
        last = since(obj["series"].get("lastObservedTime"), now)
        count = obj["series"].get("count") or 0
    target = str(involved.get("kind", "")).lower()
    if involved.get("name"):
        target += f"/{involved['name']}"
    controller = obj.get("reportingComponent") or obj.get("reportingController")
    reporter = source.get("component") or controller or ""
    instance = source.get("host") or obj.get("reportingInstance")
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        involved.get("fieldPath", ""),
        f"{reporter}, {instance}" if instance else reporter,
        str(obj.get("message") or obj.get("note") or "").strip(),
        first,
        count,
        name(obj),
    ]


def _lease(obj: Obj, now: float) -> TableCells:
    return [name(obj), part(obj, "spec").get("holderIdentity") or "", age(obj, now)]


def _config_map(obj: Obj, now: float) -> TableCells:
    return [name(obj), len(part(obj, "data")) + len(part(obj, "binaryData")), age(obj, now)]


def _secret(obj: Obj, now: float) -> TableCells:
    return [name(obj), obj.get("type", ""), len(part(obj, "data")), age(obj, now)]


def _quota(obj: Obj, now: float) -> TableCells:
    used = part(obj, "status", "used")
    sides: dict[bool, list[str]] = {False: [], True: []}
    for resource, hard in sorted(part(obj, "status", "hard").items()):
        amount = f"{resource}: {used.get(resource, 0)}/{hard}"
        sides[resource.startswith("limits.")].append(amount)
    return [name(obj), ", ".join(sides[False]), ", ".join(sides[True]), age(obj, now)]


def _priority_class(obj: Obj, now: float) -> TableCells:
    return [
        name(obj),
        obj.get("value") or 0,
        bool(obj.get("globalDefault")),
        age(obj, now),
        obj.get("preemptionPolicy") or "",
    ]


def _runtime_class(obj: Obj, now: float) -> TableCells:
    return [name(obj), obj.get("handler", ""), age(obj, now)]


EVENT = Printer(
    columns(
        "Last Seen", "Type", "Reason", "Object", "+Subobject", "+Source", "Message",
        "+First Seen", "+Count", "+Name",
    ),
    _event,
)  # fmt: skip

NODE = Printer(
    columns(
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
        "+Internal-IP",
        "+External-IP",
        "+OS-Image",
        "+Kernel-Version",
        "+Container-Runtime",
    ),
    _node,
)
NAMESPACE = Printer(columns("Name", "Status", "Age"), _namespace)
LEASE = Printer(columns("Name", "Holder", "Age"), _lease)
CONFIG_MAP = Printer(columns("Name", "Data", "Age"), _config_map)
SECRET = Printer(columns("Name", "Type", "Data", "Age"), _secret)
RESOURCE_QUOTA = Printer(columns("Name", "Request", "Limit", "Age"), _quota)
PRIORITY_CLASS = Printer(
    columns("Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"),
    _priority_class,
)
RUNTIME_CLASS = Printer(columns("Name", "Handler", "Age"), _runtime_class)
