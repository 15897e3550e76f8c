"""The kind of ``scheduling.k8s.io``: PriorityClass."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api import field_errors, scheme
from holdfast.api.decode import JsonObject
from holdfast.api.workloads import SYSTEM_PRIORITIES
from holdfast.runtime.errors import Cause
from holdfast.server.descriptor import AdmissionPlugin, KindDescriptor
from holdfast.server.kinds.admission.pods import default_priority_class
from holdfast.server.kinds.printers import cluster
from holdfast.server.operation import Operation

_HIGHEST = 1_000_000_000


def check_priority_class(new: JsonObject, old: JsonObject | None) -> Iterator[Cause]:
    """Yield what is wrong with a PriorityClass, or with a change of its value."""
    yield from _check_value(new)
    if old is not None and new.get("value") != (old.get("value") or 0):
        yield field_errors.forbidden("value", "may not be changed in an update.")


def _check_value(obj: JsonObject) -> list[Cause]:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if not isinstance(value, int):
        return [field_errors.invalid("value", value, "must be an integer")]
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) == value:
            return []
        message = (
            "priority class names with 'system-' prefix are reserved for system use only. error: "
            f"{name} is not a known system priority class"
        )
        return [field_errors.forbidden("metadata.name", message)]
    if value > _HIGHEST:
        message = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        return [field_errors.forbidden("value", message)]
    return []


def check_only_default(op: Operation, obj: JsonObject, old: JsonObject | None) -> None:
    """Raise Forbidden for a second default class."""
    if not obj.get("globalDefault"):
        return
    default = default_priority_class(op.context)
    name = obj["metadata"].get("name", "")
    if default is not None and default["metadata"]["name"] != name:
        raise op.forbidden(
            f"PriorityClass {default['metadata']['name']} is already marked as default. Only one "
            "default can exist",
            obj,
        )


KINDS = (
    KindDescriptor(
        scheme.PRIORITY_CLASSES,
        checks=(check_priority_class,),
        # As upstream, a second default is rejected before validation.
        admission_plugins=(AdmissionPlugin(mutate=check_only_default),),
        printer=cluster.PRIORITY_CLASS,
        has_generation=True,
    ),
)
