"""Evict a pod: delete it if its disruption budget has room."""

from __future__ import annotations

import msgspec

from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.labels import selector_or_nothing
from holdfast.api.meta import LabelSelector
from holdfast.api.timestamps import rfc3339
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema.stored_objects import decode, value_builder
from holdfast.apiserver.verbs.deletion import DeleteOptions, check_preconditions, delete_stored
from holdfast.apiserver.verbs.metadata import metadata_of
from holdfast.apiserver.verbs.request_object import read_body_as
from holdfast.apiserver.verbs.updating import latest_object
from holdfast.apiserver.wire.responses import json_response, success_response
from holdfast.client.transport import Response
from holdfast.errors import BadRequest, Cause, Details, Forbidden, TooManyRequests
from holdfast.store import StoredObject

_BUDGETS = ("policy", "poddisruptionbudgets")
_TOO_MANY = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)
_MOST_DISRUPTED = 2000


async def evict(op: Operation) -> Response:
    """Delete a pod if every budget that covers it allows, else answer 429."""
    eviction = read_body_as(op, ("policy", "v1", "Eviction"))
    if metadata_of(eviction).get("name", op.request_info.name) != op.request_info.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = msgspec.convert(eviction.get("deleteOptions") or {}, DeleteOptions)
    previous = latest_object(op)
    check_preconditions(op, previous, options)
    pod = decode(previous)
    budgets = [] if _needs_no_budget(pod) else budgets_of(op, pod)
    if len(budgets) > 1:
        failed = {"metadata": {}, "status": "Failure", "message": _TOO_MANY, "code": 500}
        return json_response({"kind": "Status", "apiVersion": "v1"} | failed, 500)
    if budgets and not _spared(pod, decode(budgets[0])):
        await use_disruption(op, budgets[0], options)
    await _mark_and_delete(op, options)
    return success_response(status=201)


def _needs_no_budget(pod: JsonObject) -> bool:
    phase = (pod.get("status") or {}).get("phase", "")
    dying = bool(pod["metadata"].get("deletionTimestamp"))
    return dying or phase in ("Succeeded", "Failed", "Pending")


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _spared(pod: JsonObject, budget: JsonObject) -> bool:
    """Tell whether an unready pod may go without using up the budget."""
    if _is_ready(pod):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def budgets_of(op: Operation, pod: JsonObject) -> list[StoredObject]:
    """Find the disruption budgets whose selector covers a pod."""
    labels = pod["metadata"].get("labels") or {}
    found = []
    for stored in op.context.store.list(*_BUDGETS, op.request_info.namespace):
        raw = (decode(stored).get("spec") or {}).get("selector")
        selector = None if raw is None else convert_object(raw, LabelSelector)
        if selector_or_nothing(selector).matches(labels):
            found.append(stored)
    return found


async def use_disruption(op: Operation, found: StoredObject, options: DeleteOptions) -> None:
    """Use up one disruption of a budget, or refuse with 429."""
    previous = op.context.store.latest(found.key) or found
    budget = decode(previous)
    name, status = found.key.name, dict(budget.get("status") or {})
    allowed = status.get("disruptionsAllowed", 0)
    disrupted = dict(status.get("disruptedPods") or {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _wait(f"The disruption budget {name} is still being processed by the server.", 10)
    if allowed < 0:
        raise Forbidden(
            f'poddisruptionbudgets.policy "{name}" is forbidden: pdb disruptions allowed is '
            "negative",
            found.key.details,
        )
    if allowed == 0:
        words = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        raise _wait(words, 0)
    if len(disrupted) > _MOST_DISRUPTED:
        raise Forbidden(
            f'poddisruptionbudgets.policy "{name}" is forbidden: DisruptedPods map too big - too '
            "many evictions not confirmed by PDB controller",
            found.key.details,
        )
    if op.dry_run or "All" in (options.dry_run or ()):
        return
    disrupted[op.request_info.name] = rfc3339(op.context.clock.now())
    status |= {"disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    if allowed == 1:
        status["conditions"] = _no_room(status, op.context.clock.now())
    await op.context.store.update(previous, value_builder({**budget, "status": status}))


def _no_room(status: JsonObject, now: float) -> list[JsonObject]:
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionAllowed"]
    condition = {
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
        "message": "", "lastTransitionTime": rfc3339(now),
        "observedGeneration": status.get("observedGeneration", 0),
    }  # fmt: skip
    return [*others, condition]


def _wait(words: str, seconds: int) -> TooManyRequests:
    return TooManyRequests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        Details(
            causes=(Cause("", words, "DisruptionBudget"),),
            retry_after_seconds=seconds,
        ),
    )


async def _mark_and_delete(op: Operation, options: DeleteOptions) -> None:
    """Say on the pod why it goes, then delete it."""
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
