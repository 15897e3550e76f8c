"""ResourcePolicy (scheduling.sigs.x-k8s.io/v1alpha1): ordered node pools with caps."""

from __future__ import annotations

from holdfast.api.meta import LabelSelector, Object, Struct
from holdfast.api.pod import ResourceAmounts


class MatchPolicy(Struct, frozen=True):
    """Which of the selected pods are counted."""

    ignore_terminating_pod: bool = False
    ignore_previous_pod: bool = False


class Unit(Struct, frozen=True):
    """One node pool: its nodes, its priority and how many of the selected pods it may have."""

    name: str = ""
    priority: int = 0
    max_count: int | None = None
    max_resources: ResourceAmounts = {}
    node_selector: LabelSelector = LabelSelector()


class ResourcePolicySpec(Struct, frozen=True):
    """The selected pods, and the node pools for them."""

    pod_selector: LabelSelector = LabelSelector()
    match_label_keys: tuple[str, ...] = ()
    match_policy: MatchPolicy = MatchPolicy()
    strategy: str = "required"
    units: tuple[Unit, ...] = ()


class ResourcePolicy(Object, frozen=True):
    """Ordered node pools for the pods of one namespace."""

    spec: ResourcePolicySpec = ResourcePolicySpec()
