"""The reservation that a PodMigrationJob makes for the replacement of its pod.

A user's template may not reserve more than the job moves, nor reserve for other pods: for anything
else the user creates a reservation, to which the job refers.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from holdfast.api import reservation_names
from holdfast.api.annotations import OF_ALLOCATIONS
from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.meta import OwnerReference, controller_of
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import PodMigrationJob
from holdfast.api.requests import nanos_text, request_nanos
from holdfast.api.reservation import Reservation, ReservationOwner
from holdfast.api.resource_names import PODS
from holdfast.api.scheme import POD_MIGRATION_JOBS, RESERVATIONS
from holdfast.runtime.errors import BadRequest
from holdfast.state.device_share.requests import amount_as
from holdfast.state.migration.pod_selection import is_unscheduled
from holdfast.state.reservations.reserve_pod import reserve_pod

CREATED_BY = {"app.kubernetes.io/created-by": "koord-descheduler"}
KEPT_METADATA = ("namespace", "name", "labels", "annotations")
"""The metadata that a template takes over from the pod."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_REFERENCE = tuple(f for f in OwnerReference.__struct_encode_fields__ if f != "blockOwnerDeletion")
_AT = "spec.reservationOptions.template"
_ADVICE = "create such a reservation yourself and name it in spec.reservationOptions.reservationRef"


def reservation_options(
    job: PodMigrationJob, pod: JsonObject, *, reserve_volume_claims: bool = True
) -> JsonObject:
    """Return the job's options with the complete template of its reservation.

    Values that the user set in ``spec.reservationOptions.template`` are kept. ``pod`` is raw, so
    that no field of it is lost.
    """
    given = job.spec.reservation_options
    template = copy.deepcopy(given.template if given is not None else None) or {}
    metadata = _part(template, "metadata")
    metadata["labels"] = {**CREATED_BY, **_part(metadata, "labels")}
    spec = _part(template, "spec")
    if not spec.get("template"):
        spec["template"] = _pod_template(pod, reserve_volume_claims=reserve_volume_claims)
    hands_over = bool(spec.get("preAllocation")) and bool(spec.get("owners"))
    _select_node(_part(_part(spec, "template"), "spec"), pod, "In" if hands_over else "NotIn")
    if not spec.get("owners"):
        spec["owners"] = _owners(pod)
    spec["allocateOnce"] = True
    if job.spec.ttl and not spec.get("ttl") and not spec.get("expires"):
        spec["ttl"] = job.spec.ttl
    return {"template": template}


def reservation_body(job: PodMigrationJob, template: JsonObject, order: str) -> JsonObject:
    """Return the reservation to create, which is deleted with its job; pods prefer low orders."""
    metadata = copy.deepcopy(template.get("metadata") or {})
    labels = {**_part(metadata, "labels"), reservation_names.ORDER: order}
    owner = {
        "apiVersion": POD_MIGRATION_JOBS.api_version,
        "kind": POD_MIGRATION_JOBS.kind,
        "name": job.name,
        "uid": job.uid,
    }
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {
            **metadata,
            "name": metadata.get("name") or job.uid,
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }


def _part(raw: JsonObject, name: str) -> JsonObject:
    """Return a part of the template, which a user may have written; add it if it is absent."""
    part = raw.get(name)
    if part is None:
        part = raw[name] = {}
    if not isinstance(part, dict):
        raise _wrong(name, "an object")
    return part


def _wrong(name: str, wanted: str) -> BadRequest:
    return BadRequest(f"{_AT}: {name}: must be {wanted}")


def _pod_template(pod: JsonObject, *, reserve_volume_claims: bool) -> JsonObject:
    metadata = pod.get("metadata") or {}
    kept = {name: copy.deepcopy(metadata[name]) for name in KEPT_METADATA if metadata.get(name)}
    if "annotations" in kept:
        notes = {k: v for k, v in kept["annotations"].items() if k not in OF_ALLOCATIONS}
        kept["annotations"] = notes
        if not notes:
            del kept["annotations"]
    spec = copy.deepcopy(pod.get("spec") or {})
    spec.pop("nodeName", None)
    if not reserve_volume_claims and "volumes" in spec:
        spec["volumes"] = [v for v in spec["volumes"] if not v.get("persistentVolumeClaim")]
        if not spec["volumes"]:
            del spec["volumes"]
    return {"metadata": kept, "spec": spec}


def _select_node(spec: JsonObject, pod: JsonObject, operator: str) -> None:
    """Require the pod's node, or any other one, in every term of the node affinity.

    A reservation that takes over the resources of the pod has to be on its node.
    """
    node = (pod.get("spec") or {}).get("nodeName")
    if not node:
        return
    field = {"key": "metadata.name", "operator": operator, "values": [node]}
    required = _part(_part(_part(spec, "affinity"), "nodeAffinity"), _REQUIRED)
    terms = required.setdefault("nodeSelectorTerms", []) or [{}]
    if not isinstance(terms, list) or not all(_can_get_fields(term) for term in terms):
        raise _wrong("nodeSelectorTerms", "a list of objects")
    required["nodeSelectorTerms"] = terms
    for term in terms:
        term["matchFields"] = [*(term.get("matchFields") or ()), field]


def _can_get_fields(term: Any) -> bool:
    return isinstance(term, dict) and isinstance(term.get("matchFields") or [], list)


def _owners(pod: JsonObject) -> list[JsonObject]:
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    references = metadata.get("ownerReferences") or ()
    controller = next((ref for ref in references if ref.get("controller")), None)
    if not (pod.get("spec") or {}).get("nodeName") and status.get("phase", "") in ("", "Pending"):
        named = {name: metadata[name] for name in ("namespace", "name", "uid") if name in metadata}
        return [{"object": {"apiVersion": "v1", "kind": "Pod", **named}}]
    if controller is None:
        return []
    known = {name: controller[name] for name in _REFERENCE if name in controller}
    return [{"controller": {**known, "namespace": metadata.get("namespace", "")}}]


def find_template_excess(job: PodMigrationJob, pod: Pod) -> str:
    """Return why a job may not reserve what its template says, "" if it may.

    A template that cannot be read is reported when the reservation is created.
    """
    given = job.spec.reservation_options
    raw = given.template if given is not None else None
    if not raw:
        return ""
    try:
        template = convert_object({key: raw[key] for key in ("metadata", "spec") if raw.get(key)},
                                  Reservation)  # fmt: skip
        larger = _larger_resources(template, pod)
    except (BadRequest, msgspec.ValidationError, ValueError):
        return ""
    if larger:
        return f"{_AT}: more {larger} than Pod {pod.key} requests; leave it out, or {_ADVICE}"
    for i, owner in enumerate(template.spec.owners):
        if not _is_successor(owner, pod):
            at = f"{_AT}.spec.owners[{i}]"
            who = f"the pod that replaces Pod {pod.key}"
            return f"{at}: matches other pods than {who}; leave owners out, or {_ADVICE}"
    return ""


def _larger_resources(template: Reservation, pod: Pod) -> str:
    """Return the resources of which the template reserves more than the pod, with amounts."""
    allowed = {PODS: 10**9, **request_nanos(pod)}
    wanted = request_nanos(reserve_pod(template))  # with the annotation that resizes it
    texts = [
        f"{name} ({nanos_text(name, amount)})"
        for name, amount in sorted(wanted.items())
        if amount > amount_as(name, allowed)
    ]
    return ", ".join(texts)


def _is_successor(owner: ReservationOwner, pod: Pod) -> bool:
    """Return whether an owner matches only pods that may replace a pod."""
    named, made = owner.object, owner.controller
    namespaces = {part.namespace for part in (named, made) if part is not None}
    if named is not None and named.name == pod.name and pod.namespace in namespaces:
        return True
    if is_unscheduled(pod):
        return named is not None and named.uid == pod.uid
    controller = controller_of(pod)
    if controller is None or made is None or pod.namespace not in namespaces:
        return False
    if made.uid:
        return made.uid == controller.uid
    return made.name == controller.name and made.kind in ("", controller.kind)
