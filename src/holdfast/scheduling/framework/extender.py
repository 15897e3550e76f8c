"""The configuration of HTTP extenders, and their requests and responses (extender/v1).

Nothing is sent here. Field names are upstream's Go names; keys of responses are matched in any
case, as Go does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.strict_decode import Seconds
from holdfast.scheduling.framework.values import Candidate, Placement
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

EXTENDER = "Extender"
"""The plugin name in rejections by extenders; no plugin has it."""
HIGHEST_PRIORITY = 10
"""The highest score of an extender; that of a plugin is 100."""
TIMEOUT = Seconds(5)
"""The default timeout of a request."""


class ConfigurationPart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of a KubeSchedulerConfiguration file."""


class ManagedResource(ConfigurationPart, frozen=True):
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False
    """NodeResourcesFit ignores it, because the extender accounts for it."""


class ExtenderTLS(ConfigurationPart, frozen=True):
    """TLS settings of a connection; data takes precedence over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderConfig(ConfigurationPart, frozen=True):
    """One entry of ``extenders``; an empty verb is not supported by the extender."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLS | None = None
    http_timeout: Seconds = TIMEOUT
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False

    def interested(self, pod: PodInfo) -> bool:
        """Return whether the extender is called for a pod: it requests a managed resource."""
        managed = {resource.name for resource in self.managed_resources}
        if not managed:
            return True
        spec = pod.pod.spec
        return any(
            not managed.isdisjoint(amounts)
            for container in (*spec.containers, *spec.init_containers)
            for amounts in (container.resources.requests, container.resources.limits)
        )

    @property
    def affects_decisions(self) -> bool:
        """Whether it filters, prioritizes or takes part in preemption."""
        return bool(self.filter_verb or self.prioritize_verb or self.preempt_verb)


class ExtenderFailed(Exception):
    """An extender did not respond, or its response is invalid."""


def ignorable_last(extenders: Sequence[ExtenderConfig]) -> tuple[ExtenderConfig, ...]:
    """Sort extenders: those that may be ignored come last, so that they get fewer nodes."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def ignored_resources(extenders: Sequence[ExtenderConfig]) -> tuple[str, ...]:
    """Return the resources that NodeResourcesFit ignores in every profile."""
    return tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    """The nodes that an extender allows, and its reasons for the others."""

    allowed: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


def filter_args(pod: Any, names: Sequence[str], nodes: Mapping[str, Any] | None) -> JsonObject:
    """Return ExtenderArgs: node names for an extender with a node cache, else whole nodes."""
    if nodes is None:
        return {"Pod": pod, "Nodes": None, "NodeNames": list(names)}
    whole = {"metadata": {}, "items": [nodes[name] for name in names]}
    return {"Pod": pod, "Nodes": whole, "NodeNames": None}


def read_filter_result(
    extender: ExtenderConfig, sent: Sequence[str], raw: Any
) -> ExtenderFilterResult:
    """Decode an ExtenderFilterResult."""
    result = _lower_keys(raw)
    if result.get("error"):
        raise ExtenderFailed(str(result["error"]))
    names, nodes = result.get("nodenames"), result.get("nodes")
    allowed: list[str] = []
    if extender.node_cache_capable and names is not None:
        allowed = [str(name) for name in names]
        unknown = set(allowed).difference(sent)
        if unknown:
            raise ExtenderFailed(
                f'extender "{extender.url_prefix}" claims a filtered node "{min(unknown)}" '
                "which is not found in the input node list"
            )
    elif nodes is not None:
        items = _lower_keys(nodes).get("items") or ()
        allowed = [str(_lower_keys(_lower_keys(item)["metadata"])["name"]) for item in items]
    return ExtenderFilterResult(
        tuple(allowed), result.get("failednodes") or {},
        result.get("failedandunresolvablenodes") or {},
    )  # fmt: skip


def read_host_priorities(raw: Any) -> dict[str, int]:
    """Decode a HostPriorityList: scores by node."""
    return {str(one["host"]): int(one.get("score") or 0) for one in map(_lower_keys, raw or ())}


def preemption_args(
    extender: ExtenderConfig, pod: Any, candidates: Sequence[Candidate]
) -> JsonObject:
    """Return ExtenderPreemptionArgs: victims by uid for an extender with a node cache."""

    def victims(candidate: Candidate) -> JsonObject:
        pods = [
            {"UID": victim.uid} if extender.node_cache_capable else victim.pod
            for victim in candidate.victims
        ]
        return {"Pods": pods, "NumPDBViolations": candidate.violations}

    by_node = {candidate.node: victims(candidate) for candidate in candidates}
    known, full = (by_node, None) if extender.node_cache_capable else (None, by_node)
    return {"Pod": pod, "NodeNameToVictims": full, "NodeNameToMetaVictims": known}


def read_preemption_result(extender: ExtenderConfig, raw: Any, nodes: NodeTable) -> list[Candidate]:
    """Decode an ExtenderPreemptionResult; its victims must be on the nodes it names."""
    candidates: list[Candidate] = []
    for node, found_victims in (_lower_keys(raw).get("nodenametometavictims") or {}).items():
        row = nodes.row_of.get(node)
        if row is None:
            raise ExtenderFailed(f'nodeinfo not found for node name "{node}"')
        victims = _lower_keys(found_victims or {})
        uids = [str(_lower_keys(pod).get("uid")) for pod in victims.get("pods") or ()]
        if not uids and extender.ignorable:
            continue
        if not uids:
            raise ExtenderFailed(f'expected at least one victim pod on node "{node}"')
        on_node = nodes.pods_on(row)
        for uid in uids:
            if uid not in on_node:
                raise ExtenderFailed(
                    f"extender: {extender.url_prefix} claims to preempt pod (UID: {uid}) on node: "
                    f"{node}, but the pod is not found on that node"
                )
        violations = int(victims.get("numpdbviolations") or 0)
        candidates.append(Candidate(node, tuple(on_node[uid] for uid in uids), violations))
    return candidates


@dataclass(frozen=True, slots=True)
class ExtenderPreemption:
    """The candidates for preemption that the extenders accepted, by node.

    ``proposed`` are the candidates that were sent to them. ``accepted`` may have other victims.
    ``error`` is set if an extender failed.
    """

    proposed: Mapping[str, Candidate] = field(default_factory=dict)
    accepted: Mapping[str, Candidate] = field(default_factory=dict)
    error: str = ""

    def still_accepted(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the accepted candidates whose proposal is the same now."""
        return [
            self.accepted[now.node]
            for now in candidates
            if now.node in self.accepted and _victims(now) == _victims(self.proposed[now.node])
        ]


def _victims(candidate: Candidate) -> frozenset[str]:
    return frozenset(pod.uid for pod in candidate.victims)


def binding_args(placement: Placement) -> JsonObject:
    """Return ExtenderBindingArgs."""
    pod = placement.pod
    return {
        "PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.pod.uid,
        "Node": placement.node,
    }  # fmt: skip


def check_binding_result(raw: Any) -> None:
    """Raise ExtenderFailed if an ExtenderBindingResult has an error."""
    error = _lower_keys(raw).get("error")
    if error:
        raise ExtenderFailed(str(error))


def _lower_keys(raw: Mapping[str, Any]) -> JsonObject:
    return {key.lower(): value for key, value in raw.items()}
