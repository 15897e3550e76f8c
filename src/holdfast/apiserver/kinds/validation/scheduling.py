"""What scheduling reads of pods, nodes, budgets and reservations must be readable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.api import causes
from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.node_selection import compile_selector
from holdfast.api.pod import NodeSelector
from holdfast.api.reservation import Reservation
from holdfast.apiserver.schema import strict
from holdfast.errors import BadRequest, Cause
from holdfast.validation.reservation import check_reservation as judge
from holdfast.validation.template import EFFECTS, NOT_NEGATIVE, OPERATORS, check_resources

_PERCENT = re.compile("[0-9]+%")
_NO_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
    "'93%', regex used for validation is '[0-9]+%')"
)
TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"


def check_placing(spec: JsonObject, path: str) -> Iterable[Cause]:
    """List what is wrong with where a pod says it may go, and with how much it asks for."""
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        at = f"{path}.tolerations[{i}]"
        if toleration.get("operator") and toleration["operator"] not in OPERATORS:
            yield causes.not_supported(f"{at}.operator", toleration["operator"], OPERATORS)
        if toleration.get("effect") and toleration["effect"] not in EFFECTS:
            yield causes.not_supported(f"{at}.effect", toleration["effect"], EFFECTS)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    if required := affinity.get("requiredDuringSchedulingIgnoredDuringExecution"):
        at = f"{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        yield from compile_selector(convert_object(required, NodeSelector), at).mistakes


def check_amounts(resources: Mapping[str, Any], path: str) -> Iterable[Cause]:
    """List what is wrong with the amounts a container or pod asks for."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    return check_resources(requests, limits, path)


def check_node(node: JsonObject) -> Iterable[Cause]:
    """List what is wrong with a node's taints."""
    for i, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        if taint.get("effect") not in EFFECTS:
            at = f"spec.taints[{i}].effect"
            yield causes.not_supported(at, taint.get("effect") or "", EFFECTS)


def check_budget(budget: JsonObject) -> Iterable[Cause]:
    """List what is wrong with a PodDisruptionBudget."""
    spec = budget.get("spec") or {}
    yield from _check_selector(spec.get("selector"), "spec.selector")
    for name in ("minAvailable", "maxUnavailable"):
        if spec.get(name) is not None:
            yield from check_int_or_percent(spec[name], f"spec.{name}", most_percent=100)


def check_int_or_percent(
    amount: int | str, path: str, *, most_percent: int | None
) -> Iterable[Cause]:
    """List what is wrong with a number of pods, or a percentage of them.

    Without ``most_percent`` a percentage has at most nine digits: more could not be counted with.
    """
    if isinstance(amount, int):
        if amount < 0:
            yield causes.invalid(path, amount, NOT_NEGATIVE)
    elif not _PERCENT.fullmatch(amount):
        yield causes.invalid(path, amount, _NO_PERCENT)
    elif len(amount) > 10 or (most_percent is not None and int(amount[:-1]) > most_percent):
        yield causes.invalid(path, amount, f"must not be greater than {most_percent or 999999999}%")


def check_reservation_write(new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """List what is wrong with a Reservation whose shape is right.

    What was let in once may have its status written for ever.
    """
    if old is not None and _content(old) == _content(new):
        return ()
    return check_reservation(new)


def _content(reservation: JsonObject) -> tuple[Any, Any]:
    return reservation.get("spec"), reservation["metadata"].get("annotations")


def check_reservation(reservation: JsonObject) -> Iterable[Cause]:
    """List what of a Reservation its schema does not judge: the template, the owners, and more."""
    template = (reservation.get("spec") or {}).get("template") or {}
    try:
        strict.prune_type(TEMPLATE, template, "spec.template", [])
        judged = {part: value for part, value in reservation.items() if part != "status"}
        typed = convert_object(judged, Reservation)
    except BadRequest as wrong:
        return [Cause("spec.template", f"Invalid value: {wrong.message}", "FieldValueInvalid")]
    except msgspec.ValidationError as misfit:
        return [Cause("spec", f"Invalid value: {misfit}", "FieldValueInvalid")]
    return judge(typed)


def _check_selector(selector: Any, path: str) -> Iterable[Cause]:
    try:
        from_selector(None if selector is None else convert_object(selector, LabelSelector))
    except BadRequest as wrong:
        yield causes.invalid(path, selector, wrong.message)
