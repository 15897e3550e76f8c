"""Build reservations for future replicas of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api import scheme
from holdfast.api.names import label_value

Raw = dict[str, Any]
FOR = "scheduling.holdfast.dev/reserved-for"
"""The label that tells which workload a reservation was made for."""
_NOT_RESERVED = ("nodeName", "schedulingGates")


@dataclass(frozen=True, slots=True)
class ReservationFlags:
    """The flags of ``holdfast reservation create``, except the workload."""

    ttl: str = ""
    expires: str = ""
    node: str = ""
    policy: str = ""
    reusable: bool = False
    scheduler: str = ""


def reservation_for(raw: Mapping[str, Any], wish: ReservationFlags) -> Raw:
    """Build the reservation for one more pod of a workload.

    The template is the workload's; the owners are the pods of its selector and namespace.
    """
    meta, spec = raw["metadata"], raw["spec"]
    namespace, name = meta["namespace"], meta["name"]
    made = spec.get("template") or {}
    pod = {k: v for k, v in (made.get("spec") or {}).items() if k not in _NOT_RESERVED}
    pod |= {k: v for k, v in (("nodeName", wish.node), ("schedulerName", wish.scheduler)) if v}
    kept = {k: made["metadata"][k] for k in ("labels", "annotations")
            if (made.get("metadata") or {}).get(k)}  # fmt: skip
    body: Raw = {
        "template": {"metadata": {"namespace": namespace, **kept}, "spec": pod},
        "owners": [{"object": {"namespace": namespace}, "labelSelector": spec["selector"]}],
        "allocateOnce": not wish.reusable,
    }
    body |= {k: v for k, v in (("ttl", wish.ttl), ("expires", wish.expires),
                               ("allocatePolicy", wish.policy)) if v}  # fmt: skip
    mark = f"{raw['kind'].lower()}.{namespace}.{name}"
    labels = {FOR: mark} if not label_value(mark) else {}
    return {
        "apiVersion": scheme.RESERVATIONS.api_version, "kind": scheme.RESERVATIONS.kind,
        "metadata": {"generateName": f"{name}-", "labels": labels}, "spec": body,
    }  # fmt: skip
