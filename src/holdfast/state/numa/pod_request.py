"""Read the CPUs and NUMA nodes that a pod requests: labels, annotations, priority, requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import field

from holdfast.api.annotations import parse_annotation
from holdfast.api.koordinator_names import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from holdfast.api.koordinator_qos import LSE, LSR, PROD, priority_class, qos_class
from holdfast.api.meta import Struct
from holdfast.api.resource_names import CPU
from holdfast.runtime.errors import BadRequest
from holdfast.state.numa.policy_names import (
    BIND_POLICIES,
    DEFAULT_BIND_POLICY,
    EXCLUSIVE_REQUIRED,
    FULL_PCPUS,
    NUMA_POLICIES,
)

NOT_INTEGER = "the requested CPUs must be integer"


class ResourceSpec(Struct, frozen=True):
    """The annotation ``resource-spec``."""

    required_bind_policy: str = field(default="", name="requiredCPUBindPolicy")
    preferred_bind_policy: str = field(default="", name="preferredCPUBindPolicy")
    exclusive_policy: str = field(default="", name="preferredCPUExclusivePolicy")


class NumaTopologySpec(Struct, frozen=True):
    """The annotation ``numa-topology-spec``."""

    policy: str = field(default="", name="numaTopologyPolicy")
    exclusive: str = field(default="", name="singleNUMANodeExclusive")


@dataclass(frozen=True, slots=True)
class NumaRequest:
    """The request of a pod for CPUs and NUMA nodes; hashable, equal for pods that need the same.

    ``bound``: it is bound to CPUs wherever it runs, because of its QoS class; on a node with a bind
    policy each pod that requests cpu is bound. The policies for CPUs are empty unless it is bound.
    """

    amounts: tuple[tuple[str, int], ...] = ()
    """cpu in millicores, others in units; ascending by name, none is zero."""
    millicores: int = 0
    bound: bool = False
    bind_policy: str = ""
    """FullPCPUs or SpreadByPCPUs: the required policy, else the preferred, else the default."""
    required_policy: str = ""
    exclusive_policy: str = ""
    numa_policy: str = ""
    numa_exclusive: str = ""

    @property
    def cpus(self) -> int:
        """Return the number of whole CPUs."""
        return self.millicores // 1000


NO_REQUEST = NumaRequest()


def read_request(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    priority: int | None,
    amounts: Mapping[str, int],
    default_bind_policy: str = FULL_PCPUS,
) -> NumaRequest:
    """Return what a pod asks; raise ``BadRequest`` that names a malformed annotation.

    ``amounts`` is its whole request by resource name, cpu in millicores. A bound pod whose cpu is
    not whole is returned as it is: see ``NOT_INTEGER``.
    """
    spec = parse_annotation(annotations, RESOURCE_SPEC, ResourceSpec) or ResourceSpec()
    numa = parse_annotation(annotations, NUMA_TOPOLOGY_SPEC, NumaTopologySpec)
    numa = numa or NumaTopologySpec()
    if numa.policy and numa.policy not in NUMA_POLICIES:
        names = ", ".join(NUMA_POLICIES)
        raise BadRequest(f"annotation {NUMA_TOPOLOGY_SPEC}: numaTopologyPolicy: one of {names}")
    required, effective = _bind_policies(spec, default_bind_policy)
    millicores = amounts.get(CPU, 0)
    bound = (
        qos_class(labels) in (LSE, LSR)
        and priority_class(labels, priority) == PROD
        and effective in BIND_POLICIES
        and millicores > 0
    )
    return NumaRequest(
        amounts=tuple(sorted((name, amount) for name, amount in amounts.items() if amount)),
        millicores=millicores,
        bound=bound,
        bind_policy=effective if bound else "",
        required_policy=required if bound else "",
        exclusive_policy=spec.exclusive_policy if bound else "",
        numa_policy=numa.policy,
        numa_exclusive=numa.exclusive or (EXCLUSIVE_REQUIRED if numa.policy else ""),
    )


def _bind_policies(spec: ResourceSpec, default: str) -> tuple[str, str]:
    """Return the required bind policy, empty if there is none, and the effective one."""
    required, preferred = spec.required_bind_policy, spec.preferred_bind_policy
    if required == DEFAULT_BIND_POLICY:
        required = default
    if preferred in ("", DEFAULT_BIND_POLICY):
        preferred = default
    return required, required or preferred
