"""HTTP extenders as they are configured, and what they are asked and answer (extender/v1).

Nothing is sent here: these are the words. Field names are upstream's Go names; answers are read as
Go reads them, whatever the case of their keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.api.strict_decode import Seconds
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.values import Candidate, Placement

EXTENDER = "Extender"
"""Who is to blame when extenders refuse a pod; no plugin has this name."""
HIGHEST_PRIORITY = 10
"""The best an extender can say of a node; a plugin's best is 100."""
TIMEOUT = Seconds(5)
"""How long an extender may take if its configuration does not say."""

Json = dict[str, Any]


class ConfigurationPart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of a KubeSchedulerConfiguration file."""


class ManagedResource(ConfigurationPart, frozen=True):
    """An extended resource that an extender looks after."""

    name: str = ""
    ignored_by_scheduler: bool = False
    """NodeResourcesFit leaves it alone: the extender counts it."""


class ExtenderTLS(ConfigurationPart, frozen=True):
    """Whom to believe and how to be believed; data wins over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderConfig(ConfigurationPart, frozen=True):
    """One entry of ``extenders``; a verb that is empty is not spoken."""

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
        """Tell whether the extender wants to hear of a pod: it asks for a managed resource."""
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
        """Whether it has a say in where pods go."""
        return bool(self.filter_verb or self.prioritize_verb or self.preempt_verb)


class ExtenderFailed(Exception):
    """An extender gave no answer, or none that makes sense."""


def ignorable_last(extenders: Sequence[ExtenderConfig]) -> tuple[ExtenderConfig, ...]:
    """Those that may fail come last, so that they are asked about fewer nodes."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def ignored_resources(extenders: Sequence[ExtenderConfig]) -> tuple[str, ...]:
    """Resources that NodeResourcesFit is to leave alone, in every profile."""
    return tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    """Which of the nodes asked about will do, and what was said of the others."""

    allowed: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


def filter_args(pod: Any, names: Sequence[str], nodes: Mapping[str, Any] | None) -> Json:
    """Write ExtenderArgs: nodes by name for an extender that knows them, else in full."""
    if nodes is None:
        return {"Pod": pod, "Nodes": None, "NodeNames": list(names)}
    whole = {"metadata": {}, "items": [nodes[name] for name in names]}
    return {"Pod": pod, "Nodes": whole, "NodeNames": None}


def read_filter_result(
    extender: ExtenderConfig, asked: Sequence[str], raw: Any
) -> ExtenderFilterResult:
    """Read an ExtenderFilterResult."""
    answer = _folded(raw)
    if answer.get("error"):
        raise ExtenderFailed(str(answer["error"]))
    names, nodes = answer.get("nodenames"), answer.get("nodes")
    allowed: list[str] = []
    if extender.node_cache_capable and names is not None:
        allowed = [str(name) for name in names]
        unknown = set(allowed).difference(asked)
        if unknown:
            raise ExtenderFailed(
                f'extender "{extender.url_prefix}" claims a filtered node "{min(unknown)}" '
                "which is not found in the input node list"
            )
    elif nodes is not None:
        items = _folded(nodes).get("items") or ()
        allowed = [str(_folded(_folded(item)["metadata"])["name"]) for item in items]
    return ExtenderFilterResult(
        tuple(allowed), answer.get("failednodes") or {},
        answer.get("failedandunresolvablenodes") or {},
    )  # fmt: skip


def read_host_priorities(raw: Any) -> dict[str, int]:
    """Read a HostPriorityList."""
    return {str(one["host"]): int(one.get("score") or 0) for one in map(_folded, raw or ())}


def preemption_args(extender: ExtenderConfig, pod: Any, candidates: Sequence[Candidate]) -> Json:
    """Write ExtenderPreemptionArgs: victims by uid for an extender that knows nodes."""

    def victims(candidate: Candidate) -> Json:
        pods = [
            {"UID": victim.uid} if extender.node_cache_capable else victim.pod
            for victim in candidate.victims
        ]
        return {"Pods": pods, "NumPDBViolations": candidate.violations}

    by_node = {candidate.node: victims(candidate) for candidate in candidates}
    known, full = (by_node, None) if extender.node_cache_capable else (None, by_node)
    return {"Pod": pod, "NodeNameToVictims": full, "NodeNameToMetaVictims": known}


def read_preemption_result(extender: ExtenderConfig, raw: Any, nodes: NodeTable) -> list[Candidate]:
    """Read an ExtenderPreemptionResult; its victims must stand where it says."""
    found: list[Candidate] = []
    for node, said in (_folded(raw).get("nodenametometavictims") or {}).items():
        row = nodes.row_of.get(node)
        if row is None:
            raise ExtenderFailed(f'nodeinfo not found for node name "{node}"')
        victims = _folded(said or {})
        uids = [str(_folded(pod).get("uid")) for pod in victims.get("pods") or ()]
        if not uids and extender.ignorable:
            continue
        if not uids:
            raise ExtenderFailed(f'expected at least one victim pod on node "{node}"')
        there = nodes.pods_on(row)
        for uid in uids:
            if uid not in there:
                raise ExtenderFailed(
                    f"extender: {extender.url_prefix} claims to preempt pod (UID: {uid}) on node: "
                    f"{node}, but the pod is not found on that node"
                )
        violations = int(victims.get("numpdbviolations") or 0)
        found.append(Candidate(node, tuple(there[uid] for uid in uids), violations))
    return found


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
        """The candidates of now that are still what the extenders agreed to."""
        return [
            self.accepted[now.node]
            for now in candidates
            if now.node in self.accepted and _victims(now) == _victims(self.proposed[now.node])
        ]


def _victims(candidate: Candidate) -> frozenset[str]:
    return frozenset(pod.uid for pod in candidate.victims)


def binding_args(placement: Placement) -> Json:
    """Write ExtenderBindingArgs."""
    pod = placement.pod
    return {
        "PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.pod.uid,
        "Node": placement.node,
    }  # fmt: skip


def check_binding_result(raw: Any) -> None:
    """Read an ExtenderBindingResult; what it calls an error is one."""
    error = _folded(raw).get("error")
    if error:
        raise ExtenderFailed(str(error))


def _folded(raw: Mapping[str, Any]) -> Json:
    return {key.lower(): value for key, value in raw.items()}
