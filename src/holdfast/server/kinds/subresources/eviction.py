"""Evict a pod: delete it if its PodDisruptionBudget allows."""

from __future__ import annotations

import msgspec

from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.labels import selector_or_nothing
from holdfast.api.meta import LabelSelector
from holdfast.api.timestamps import rfc3339
from holdfast.client.transport import Response
from holdfast.runtime.errors import BadRequest, Cause, Details, Forbidden, NotFound, TooManyRequests
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode, value_builder
from holdfast.server.store import StoredObject
from holdfast.server.verbs.admission import admit_deletion
from holdfast.server.verbs.deletion import DeleteOptions, check_preconditions, delete_stored
from holdfast.server.verbs.metadata import metadata_of
from holdfast.server.verbs.request_object import read_body_as
from holdfast.server.verbs.updating import latest_object
from holdfast.server.wire.responses import json_response, success_response

_BUDGETS = ("policy", "poddisruptionbudgets")
_TOO_MANY = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)
_MAX_DISRUPTED_PODS = 2000


async def evict(op: Operation) -> Response:
    """Delete a pod if its disruption budget allows, else raise TooManyRequests."""
    eviction = read_body_as(op, ("policy", "v1", "Eviction"))
    if metadata_of(eviction).get("name", op.request_info.name) != op.request_info.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = msgspec.convert(eviction.get("deleteOptions") or {}, DeleteOptions)
    if op.user.node_name is not None and op.context.store.latest(op.key) is None:
        # Upstream's NodeRestriction reads the pod first and has another message for a missing pod.
        name = op.request_info.name
        raise NotFound(f'pod "{name}" not found', Details(name, kind="pod"))
    previous = latest_object(op)
    check_preconditions(op, previous, options)
    pod = decode(previous)
    admit_deletion(op, pod)
    budgets = [] if _ignores_budgets(pod) else budgets_of(op, pod)
    if len(budgets) > 1:
        failed = {"metadata": {}, "status": "Failure", "message": _TOO_MANY, "code": 500}
        return json_response({"kind": "Status", "apiVersion": "v1"} | failed, 500)
    if budgets and not _is_free_to_evict(pod, decode(budgets[0])):
        await use_disruption(op, budgets[0], options)
    await _mark_and_delete(op, options)
    return success_response(status=201)


def _ignores_budgets(pod: JsonObject) -> bool:
    phase = (pod.get("status") or {}).get("phase", "")
    deleting = bool(pod["metadata"].get("deletionTimestamp"))
    return deleting or phase in ("Succeeded", "Failed", "Pending")


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _is_free_to_evict(pod: JsonObject, budget: JsonObject) -> bool:
    """Return whether an unready pod may be evicted without using a disruption of the budget."""
    if _is_ready(pod):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def budgets_of(op: Operation, pod: JsonObject) -> list[StoredObject]:
    """Return the disruption budgets that select a pod."""
    labels = pod["metadata"].get("labels") or {}
    budgets = []
    for stored in op.context.store.list(*_BUDGETS, op.request_info.namespace):
        raw = (decode(stored).get("spec") or {}).get("selector")
        selector = None if raw is None else convert_object(raw, LabelSelector)
        if selector_or_nothing(selector).matches(labels):
            budgets.append(stored)
    return budgets


async def use_disruption(op: Operation, stored: StoredObject, options: DeleteOptions) -> None:
    """Use one disruption of a budget; raise TooManyRequests if none is allowed."""
    previous = op.context.store.latest(stored.key) or stored
    budget = decode(previous)
    name, status = stored.key.name, dict(budget.get("status") or {})
    allowed = status.get("disruptionsAllowed", 0)
    disrupted = dict(status.get("disruptedPods") or {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _budget_error(
            f"The disruption budget {name} is still being processed by the server.", 10
        )
    if allowed < 0:
        raise Forbidden(
            f'poddisruptionbudgets.policy "{name}" is forbidden: pdb disruptions allowed is '
            "negative",
            stored.key.details,
        )
    if allowed == 0:
        message = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        raise _budget_error(message, 0)
    if len(disrupted) > _MAX_DISRUPTED_PODS:
        raise Forbidden(
            f'poddisruptionbudgets.policy "{name}" is forbidden: DisruptedPods map too big - too '
            "many evictions not confirmed by PDB controller",
            stored.key.details,
        )
    if op.dry_run or "All" in (options.dry_run or ()):
        return
    disrupted[op.request_info.name] = rfc3339(op.context.clock.now())
    status |= {"disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    if allowed == 1:
        status["conditions"] = _without_disruptions(status, op.context.clock.now())
    await op.context.store.update(previous, value_builder({**budget, "status": status}))


def _without_disruptions(status: JsonObject, now: float) -> list[JsonObject]:
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionAllowed"]
    condition = {
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
        "message": "", "lastTransitionTime": rfc3339(now),
        "observedGeneration": status.get("observedGeneration", 0),
    }  # fmt: skip
    return [*others, condition]


def _budget_error(message: str, seconds: int) -> TooManyRequests:
    return TooManyRequests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        Details(
            causes=(Cause("", message, "DisruptionBudget"),),
            retry_after_seconds=seconds,
        ),
    )


async def _mark_and_delete(op: Operation, options: DeleteOptions) -> None:
    """Add the condition DisruptionTarget to the pod, then delete it."""
    previous = latest_object(op)
    if not (op.dry_run or "All" in (options.dry_run or ())):
        pod = decode(previous)
        status = dict(pod.get("status") or {})
        others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionTarget"]
        reason = {
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": None,
            "lastTransitionTime": rfc3339(op.context.clock.now()),
            "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
        }  # fmt: skip
        status["conditions"] = [*others, reason]
        await op.context.store.update(previous, value_builder({**pod, "status": status}))
        previous = latest_object(op)
    await delete_stored(op, previous, options)
