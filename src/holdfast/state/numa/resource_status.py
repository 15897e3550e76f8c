"""The annotations ``resource-status`` and ``resource-spec`` of pods and reservations."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.api.annotations import parse_annotation
from holdfast.api.koordinator_names import RESOURCE_SPEC, RESOURCE_STATUS
from holdfast.api.meta import Struct
from holdfast.api.quantity import BINARY_SI, MILLI, AmountText, Quantity, milli, units
from holdfast.api.resource_names import CPU
from holdfast.runtime.errors import BadRequest
from holdfast.state.numa.cpu_set import format_cpu_list, lowest, parse_cpu_list
from holdfast.state.numa.policy_names import DEFAULT_BIND_POLICY
from holdfast.state.numa.topology import MAX_NUMA_NODES

_REQUIRED, _PREFERRED = "requiredCPUBindPolicy", "preferredCPUBindPolicy"
NumaAmounts = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
"""Amounts by NUMA node and resource name, both ascending: cpu in millicores, others in units."""


@dataclass(frozen=True, slots=True)
class NumaAllocation:
    """The allocation of a pod or a reservation: CPUs as a mask, and amounts of NUMA nodes."""

    cpus: int = 0
    amounts: NumaAmounts = ()
    exclusive_policy: str = ""

    def __bool__(self) -> bool:
        return bool(self.cpus or self.amounts)


NOTHING = NumaAllocation()


class _NodeResources(Struct, frozen=True):
    node: int = 0
    resources: dict[str, AmountText] = {}  # noqa: RUF012 - msgspec copies it


class _ResourceStatus(Struct, frozen=True):
    cpuset: str = ""
    numa_node_resources: tuple[_NodeResources, ...] = msgspec.field(
        default=(), name="numaNodeResources"
    )


class _ExclusivePolicy(Struct, frozen=True):
    policy: str = msgspec.field(default="", name="preferredCPUExclusivePolicy")


def read_allocation(annotations: Mapping[str, str]) -> NumaAllocation:
    """Return the allocation in a pod's annotations; a malformed one counts as absent."""
    text, spec = annotations.get(RESOURCE_STATUS), annotations.get(RESOURCE_SPEC)
    if not text:
        return NOTHING
    return (_read_short if len(text) + len(spec or "") <= _SHORT else _read)(text, spec)


def _read(text: str, spec_text: str | None) -> NumaAllocation:
    try:
        status = parse_annotation({RESOURCE_STATUS: text}, RESOURCE_STATUS, _ResourceStatus)
        if status is None:
            return NOTHING
        cpus = parse_cpu_list(status.cpuset)
        amounts = {
            each.node: read_amounts(each.resources)
            for each in status.numa_node_resources
            if 0 <= each.node < MAX_NUMA_NODES
        }
    except BadRequest:
        return NOTHING
    spec = None
    if spec_text is not None:
        with suppress(BadRequest):
            spec = parse_annotation({RESOURCE_SPEC: spec_text}, RESOURCE_SPEC, _ExclusivePolicy)
    return NumaAllocation(cpus, ordered(amounts), "" if spec is None else spec.policy)


_SHORT = 1024
"""Longer texts, which a user may write in any number, are not remembered."""
_read_short = lru_cache(maxsize=4096)(_read)


def read_amounts(resources: Mapping[str, AmountText]) -> dict[str, int]:
    """Read amounts above zero; raise BadRequest for one that cannot be parsed."""
    amounts = {name: (milli if name == CPU else units)(text) for name, text in resources.items()}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def ordered(amounts: Mapping[int, Mapping[str, int]]) -> NumaAmounts:
    """Return amounts by NUMA node in order, without those that are zero."""
    return tuple(
        (node, tuple(sorted((name, amount) for name, amount in of.items() if amount)))
        for node, of in sorted(amounts.items())
        if any(of.values())
    )


def within_request(allocation: NumaAllocation, request: Mapping[str, int]) -> NumaAllocation:
    """Return the part of an allocation that a pod with this request can have, lowest numbers first.

    >>> within_request(NumaAllocation(0b1111_0000), {"cpu": 2500})
    NumaAllocation(cpus=48, amounts=(), exclusive_policy='')
    """
    cpus = lowest(allocation.cpus, request.get(CPU, 0) // 1000)
    left = dict(request)
    amounts: dict[int, dict[str, int]] = {}
    for node, of in allocation.amounts:
        for name, amount in of:
            amounts.setdefault(node, {})[name] = taken = min(amount, left.get(name, 0))
            left[name] = left.get(name, 0) - taken
    return NumaAllocation(cpus, ordered(amounts), allocation.exclusive_policy)


def possible_status(text: str, request: Mapping[str, int]) -> str:
    """Return the part of the annotation that a pod with this request can have; "" for nothing."""
    written = read_allocation({RESOURCE_STATUS: text})
    possible = within_request(written, request)
    if possible == written:
        return text
    return format_status(possible) if possible else ""


def format_status(allocation: NumaAllocation) -> str:
    """Write the annotation ``resource-status``.

    >>> format_status(NumaAllocation(0b1111, ((0, (("cpu", 4000), ("memory", 2**30))),)))
    '{"cpuset":"0-3","numaNodeResources":[{"node":0,"resources":{"cpu":"4","memory":"1Gi"}}]}'
    """
    return msgspec.json.encode(status_fields(allocation)).decode()


def status_fields(allocation: NumaAllocation) -> dict[str, Any]:
    """Return the fields of ``resource-status``; those that are empty are left out."""
    status: dict[str, Any] = {}
    if allocation.cpus:
        status["cpuset"] = format_cpu_list(allocation.cpus)
    if allocation.amounts:
        status["numaNodeResources"] = amount_fields(allocation.amounts)
    return status


def amount_fields(amounts: NumaAmounts) -> list[dict[str, Any]]:
    """Return amounts of NUMA nodes in the form of the API."""
    return [
        {"node": node, "resources": {name: _text(name, amount) for name, amount in of}}
        for node, of in amounts
    ]


def _text(name: str, amount: int) -> str:
    if name == CPU:
        return str(Quantity(amount, MILLI))
    return str(Quantity(amount, format=BINARY_SI))


def completed_spec(
    annotations: Mapping[str, str], bind_policy: str, *, required: bool = False
) -> str | None:
    """Return ``resource-spec`` of a bound pod with the policy that was used, None if unchanged.

    ``required``: the pod or its node requires the policy. Other fields are kept.

    >>> completed_spec({}, "FullPCPUs")
    '{"preferredCPUBindPolicy":"FullPCPUs"}'
    """
    text = annotations.get(RESOURCE_SPEC)
    spec: dict[str, Any] = (msgspec.json.decode(text) if text else None) or {}
    changed = dict(spec)
    if required and spec.get(_REQUIRED, "") in ("", DEFAULT_BIND_POLICY):
        changed[_REQUIRED] = bind_policy
    if spec.get(_PREFERRED) == DEFAULT_BIND_POLICY:
        changed[_PREFERRED] = bind_policy
    if not (changed.get(_REQUIRED) or changed.get(_PREFERRED)):
        changed[_PREFERRED] = bind_policy
    return None if changed == spec else msgspec.json.encode(changed).decode()
