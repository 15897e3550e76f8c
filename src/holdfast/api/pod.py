"""The fields of pods that the scheduler, the controllers and the node agent read."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api.classic_dra.claim_sources import ClassicClaimSource, annotated_names
from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.api.meta import Condition, LabelSelector, Object, Requirement, Struct
from holdfast.api.quantity import AmountText
from holdfast.api.volume_sources import ISCSI, RBD, DiskSources

ResourceAmounts = dict[str, AmountText]


class ContainerResourceClaim(Struct, frozen=True):
    """A container's reference to one of its pod's claims, or to one request of it."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Struct, frozen=True):
    """Requests, limits and claims of a container or pod."""

    requests: ResourceAmounts = {}
    limits: ResourceAmounts = {}
    claims: tuple[ContainerResourceClaim, ...] = ()


class ContainerPort(Struct, frozen=True):
    """A port; ``host_port`` > 0 uses that port of the node."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"
    name: str = ""


class ContainerRestartRule(Struct, frozen=True):
    """The action after a container exits."""

    action: str = ""


class Container(Struct, frozen=True):
    """A container or init container (``restart_policy`` Always: a sidecar)."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class Toleration(Struct, frozen=True):
    """Tolerates matching taints of nodes, devices or reservations."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorTerm(Struct, frozen=True):
    """Expressions over labels and fields, all ANDed; an empty term matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    """Terms, ORed."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True):
    """A weighted term of preferred node affinity."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    """Required and preferred nodes of a pod."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Struct, frozen=True):
    """Pods to be co-located with, or separated from, by topology key."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    """A weighted term of preferred pod affinity."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """Required and preferred terms of pod affinity or anti-affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True):
    """Node affinity, pod affinity and pod anti-affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    """Spreads matching pods evenly over topology domains."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(Struct, frozen=True):
    """A gate: while present, the pod is not scheduled."""

    name: str = ""


class PodResourceClaim(Struct, frozen=True):
    """A claim of the pod, by name or created from a template; ``claim`` is one of classic DRA."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None
    claim: ClassicClaimSource | None = None


class PersistentVolumeClaimVolumeSource(Struct, frozen=True):
    """The persistent volume claim of a volume."""

    claim_name: str = ""
    read_only: bool = False


class ImageVolumeSource(Struct, frozen=True):
    """An image mounted as a volume."""

    reference: str = ""


class Volume(DiskSources, frozen=True):
    """A volume of the pod: the fields that scheduling depends on."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: dict[str, Any] | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    image: ImageVolumeSource | None = None


class PodSpec(Struct, frozen=True):
    """The fields of a pod's spec that components other than the API server read."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceAmounts = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    termination_grace_period_seconds: int | None = None
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""
    active_deadline_seconds: int | None = None
    scheduling_group: dict[str, Any] | None = None
    workload_ref: dict[str, Any] | None = None


class ContainerStatus(Struct, frozen=True):
    """State of a container, and its actual and allocated resources (in-place resize)."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceAmounts = {}
    ready: bool = False
    restart_count: int = 0


class PodResourceClaimStatus(Struct, frozen=True):
    """The name of the claim created for an entry of ``spec.resourceClaims``."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct, frozen=True):
    """Which request of the extended resource claim serves which resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(Struct, frozen=True):
    """The claim for a pod's extended resources that devices serve (KEP-5004)."""

    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class PodStatus(Struct, frozen=True):
    """The status of a pod."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceAmounts = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class Pod(Object, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether the pod has succeeded or failed; it uses no resources."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted; it uses resources until it is removed."""
        return self.metadata.deletion_timestamp is not None

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of a type, or None."""
        return next((c for c in self.status.conditions if c.type == type_), None)

    @property
    def names_claims(self) -> bool:
        """Whether it asks for claims, in its spec or in the annotation, readable or not."""
        return bool(self.spec.resource_claims) or POD_CLAIMS in self.metadata.annotations

    @property
    def structured_claims(self) -> tuple[PodResourceClaim, ...]:
        """Its claims of ``resource.k8s.io``, without shadows of classic claims."""
        claims = self.spec.resource_claims
        if not claims:
            return ()
        shadows = annotated_names(self.metadata.annotations.get(POD_CLAIMS))
        return tuple([c for c in claims if c.claim is None and c.name not in shadows])


def without_claims(pod: Pod) -> Pod:
    """Return a pod as if it had asked for no claims, for a cluster without devices."""
    if pod.spec.resource_claims:
        spec = msgspec.structs.replace(pod.spec, resource_claims=())
        pod = msgspec.structs.replace(pod, spec=spec)
    if POD_CLAIMS in pod.metadata.annotations:
        others = {key: v for key, v in pod.metadata.annotations.items() if key != POD_CLAIMS}
        meta = msgspec.structs.replace(pod.metadata, annotations=others)
        pod = msgspec.structs.replace(pod, metadata=meta)
    return pod


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of an entry's claim; "" if it does not exist yet, None if not needed."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    return ""


def claim_names(pod: Pod) -> tuple[str, ...]:
    """Return the names of the pod's claims, that for extended resources included."""
    names = [claim_name(pod, entry) for entry in pod.structured_claims]
    special = pod.status.extended_resource_claim_status
    if special is not None:
        names.append(special.resource_claim_name)
    return tuple(name for name in names if name)
