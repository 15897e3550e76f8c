"""Keep the top of the priority range for the system, and one default at most."""

from __future__ import annotations

from typing import Any

from holdfast.api import causes
from holdfast.apiserver.kinds.admission.pods import default_class
from holdfast.apiserver.operation import Operation
from holdfast.errors import Cause, Forbidden

Object = dict[str, Any]

ID = ("scheduling.k8s.io", "priorityclasses")
SYSTEM_CLASSES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_HIGHEST = 1_000_000_000


def check_priority_class(obj: Object) -> list[Cause]:
    """List what is wrong with a PriorityClass."""
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if not isinstance(value, int):
        return [causes.invalid("value", value, "must be an integer")]
    if name.startswith("system-"):
        if SYSTEM_CLASSES.get(name) == value:
            return []
        words = (
            "priority class names with 'system-' prefix are reserved for system use only. error: "
            f"{name} is not a known system priority class"
        )
        return [causes.forbidden("metadata.name", words)]
    if value > _HIGHEST:
        words = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        return [causes.forbidden("value", words)]
    return []


def check_only_default(op: Operation, obj: Object) -> None:
    """Refuse a second default class."""
    if not obj.get("globalDefault"):
        return
    known = default_class(op.context)
    name = obj["metadata"].get("name", "")
    if known is not None and known["metadata"]["name"] != name:
        raise Forbidden(
            f'priorityclasses.scheduling.k8s.io "{name}" is forbidden: PriorityClass '
            f"{known['metadata']['name']} is already marked as default. Only one default can exist",
            op.served.key("", name).details,
        )
