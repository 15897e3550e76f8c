"""From picks to what is written into a claim's status."""

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
from holdfast.devices.requests import Ask
from holdfast.devices.search import Pick


def allocation_of(
    claim: ResourceClaim, picks: Sequence[Pick], asks: Sequence[Ask], node: str, features: Features
) -> Allocation:
    """Build a claim's allocation: its picks, and for each request the ask that was chosen."""
    results = tuple(_result(claim, i, pick, features) for i, pick in enumerate(picks))
    return Allocation(
        devices=DeviceAllocation(results=results, config=_config(claim, asks)),
        node_selector=_node_selector(picks, node),
    )


def _result(claim: ResourceClaim, number: int, pick: Pick, features: Features) -> DeviceResult:
    driver, pool, device = pick.candidate.id
    facts = pick.candidate.device
    binds = features.binding_conditions
    consumed = pick.consumed
    return DeviceResult(
        request=pick.ask.label,
        driver=driver,
        pool=pool,
        device=device,
        admin_access=True if pick.ask.admin else None,
        tolerations=pick.ask.tolerations,
        binding_conditions=facts.binding_conditions if binds else (),
        binding_failure_conditions=facts.binding_failure_conditions if binds else (),
        share_id=None if consumed is None else _share_id(claim, number, pick),
        consumed_capacity={name: str(amount) for name, amount in (consumed or {}).items()},
    )


def _share_id(claim: ResourceClaim, number: int, pick: Pick) -> str:
    """Make an id for a share: unique, as no claim is given devices twice at the same version."""
    words = (claim.uid, claim.metadata.resource_version, str(number), *pick.candidate.id)
    digest = hashlib.sha256("\0".join(words).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _config(claim: ResourceClaim, asks: Sequence[Ask]) -> tuple[dict[str, Any], ...]:
    """Class configuration once a class, then the claim's own for requests that were chosen."""
    config: list[dict[str, Any]] = []
    users: dict[str, list[str]] = {}
    for ask in asks:
        users.setdefault(ask.device_class.name, []).append(ask.label)
    classes = {ask.device_class.name: ask.device_class for ask in asks}
    for name, requests in users.items():
        config += (_entry("FromClass", requests, c) for c in classes[name].spec.config)
    for own in claim.spec.devices.config:
        if not own.requests:
            config.append(_entry("FromClaim", [], own))
            continue
        config += (
            _entry("FromClaim", list(own.requests), own)
            for ask in asks
            if ask.request in own.requests or ask.label in own.requests
        )
    return tuple(config)


def _entry(source: str, requests: list[str], config: DeviceConfig) -> dict[str, Any]:
    entry: dict[str, Any] = {"source": source}
    if requests:
        entry["requests"] = requests
    if config.opaque is not None:
        entry["opaque"] = msgspec.to_builtins(config.opaque)
    return entry


def _node_selector(picks: Sequence[Pick], node: str) -> NodeSelector | None:
    """Where the devices can be used together: one node, the nodes of their selectors, or any."""
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for pick in picks:
        spec, device = pick.candidate.slice.spec, pick.candidate.device
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
