"""Build the allocation that is written into a claim's status."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.api.devices import (
    Allocation,
    DeviceAllocation,
    DeviceConfig,
    DeviceResult,
    ResourceClaim,
)
from holdfast.api.meta import Requirement
from holdfast.api.node_selection import NAME_FIELD
from holdfast.api.pod import NodeSelector, NodeSelectorTerm
from holdfast.devices.features import Features
from holdfast.devices.requests import RequestAlternative
from holdfast.devices.search import ChosenDevice


def build_allocation(
    claim: ResourceClaim,
    chosen_devices: Sequence[ChosenDevice],
    alternatives: Sequence[RequestAlternative],
    node: str,
    features: Features,
) -> Allocation:
    """Build a claim's allocation from its chosen devices and alternatives."""
    results = [_result(claim, i, chosen, features) for i, chosen in enumerate(chosen_devices)]
    return Allocation(
        devices=DeviceAllocation(results=tuple(results), config=_config(claim, alternatives)),
        node_selector=_node_selector(chosen_devices, node),
    )


def _result(
    claim: ResourceClaim, number: int, chosen: ChosenDevice, features: Features
) -> DeviceResult:
    driver, pool, name = chosen.candidate.id
    device = chosen.candidate.device
    binds = features.binding_conditions
    consumed = chosen.consumed
    return DeviceResult(
        request=chosen.alternative.label,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if chosen.alternative.admin_access else None,
        tolerations=chosen.alternative.tolerations,
        binding_conditions=device.binding_conditions if binds else (),
        binding_failure_conditions=device.binding_failure_conditions if binds else (),
        share_id=None if consumed is None else _share_id(claim, number, chosen),
        consumed_capacity={name: str(amount) for name, amount in (consumed or {}).items()},
    )


def _share_id(claim: ResourceClaim, number: int, chosen: ChosenDevice) -> str:
    """Return a unique id: a claim is never allocated twice at the same resource version."""
    parts = (claim.uid, claim.metadata.resource_version, str(number), *chosen.candidate.id)
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _config(
    claim: ResourceClaim, alternatives: Sequence[RequestAlternative]
) -> tuple[dict[str, Any], ...]:
    """Return the configuration of each class once, then the claim's own for its chosen requests."""
    config: list[dict[str, Any]] = []
    configured = [a for a in alternatives if a.device_class.spec.config]
    classes = {a.device_class.name: a.device_class for a in configured}
    users: dict[str, list[str]] = {}
    for alternative in configured:
        users.setdefault(alternative.device_class.name, []).append(alternative.label)
    for name, device_class in classes.items():
        config += (_entry("FromClass", users[name], c) for c in device_class.spec.config)
    for own in claim.spec.devices.config:
        if not own.requests:
            config.append(_entry("FromClaim", [], own))
            continue
        config += (
            _entry("FromClaim", list(own.requests), own)
            for alternative in alternatives
            if alternative.request_name in own.requests or alternative.label in own.requests
        )
    return tuple(config)


def _entry(source: str, requests: list[str], config: DeviceConfig) -> dict[str, Any]:
    entry: dict[str, Any] = {"source": source}
    if requests:
        entry["requests"] = requests
    if config.opaque is not None:
        entry["opaque"] = msgspec.to_builtins(config.opaque)
    return entry


def _node_selector(chosen_devices: Sequence[ChosenDevice], node: str) -> NodeSelector | None:
    """Return which nodes can use all of the devices; None: every node."""
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for chosen in chosen_devices:
        spec, device = chosen.candidate.slice.spec, chosen.candidate.device
        owner = device if spec.per_device_node_selection else spec
        if owner.node_name is not None or device.binds_to_node:
            here = Requirement(key=NAME_FIELD, operator="In", values=(node,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(here,)),))
        for term in owner.node_selector.node_selector_terms if owner.node_selector else ():
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(known: list[Requirement], more: Sequence[Requirement]) -> None:
    for requirement in more:
        if not any(_same(requirement, other) for other in known):
            known.append(requirement)


def _same(one: Requirement, other: Requirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (
        other.key, other.operator, set(other.values),
    )  # fmt: skip
