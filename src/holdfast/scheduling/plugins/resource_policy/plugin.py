"""The plugin: which policy governs a pod, and which events may help it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from holdfast.api.field_errors import not_supported
from holdfast.runtime.settings import ResourcePolicySettings
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    ClusterEvent,
    Code,
    Plugin,
    Reject,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.resource_policy import queueing_hints as hints
from holdfast.scheduling.plugins.resource_policy.plan import PolicyPlan
from holdfast.scheduling.plugins.resource_policy.pod_units import PodUnits, timeouts_passed
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.resource_policies.policies import Policy
from holdfast.state.resource_policies.unit_totals import (
    DEVICE_EPOCHS,
    UnitTotalsCache,
    amounts_of,
    limited_resources,
)

_STRICT, _SCORE = "Strict", "Score"
_IGNORE, _REJECT = "Ignore", "Reject"
_TIES, _FIRST = "Ties", "First"

_SUPPORTED = {
    "order": (_STRICT, _SCORE),
    "missingMatchLabelKey": (_IGNORE, _REJECT),
    "reservations": (_TIES, _FIRST),
}


class ResourcePolicyArgs(PluginArgs, frozen=True):
    """The arguments of the plugin.

    ``order``: Strict compares priorities before any score, Score leaves them to the weighted sum.
    ``missing_match_label_key``: what happens to a pod without one of the matchLabelKeys.
    ``drain_excess``, for the controller: pods beyond a cap get a negative deletion cost.
    ``reservations``: whether a reservation that the pod may use is compared before priorities
    (First) or only inside a priority (Ties).
    """

    order: str = _STRICT
    missing_match_label_key: str = _IGNORE
    drain_excess: bool = False
    reservations: str = _TIES

    @property
    def strict_order(self) -> bool:
        """Whether priorities are compared before any score."""
        return self.order == _STRICT

    @property
    def rejects_missing_keys(self) -> bool:
        """Whether a pod without one of the matchLabelKeys is rejected."""
        return self.missing_match_label_key == _REJECT

    @property
    def reservations_first(self) -> bool:
        """Whether nodes with a reservation of the pod come before units of higher priority."""
        return self.reservations == _FIRST


class ResourcePolicyPlugin(Plugin):
    """Fills the units of a policy by priority and never beyond their caps."""

    name = "resourcepolicy"
    traits = Traits(
        scope=Scope.DOMAIN,
        epochs=(Epoch.POLICIES, Epoch.NODES, Epoch.LABELS, Epoch.COUNTERS, *DEVICE_EPOCHS),
        events_to_register={
            EventResource.RESOURCE_POLICY: (),
            EventResource.NODE: (ActionType.ADD, ActionType.DELETE, ActionType.UPDATE_NODE_LABEL),
            EventResource.ASSIGNED_POD: (ActionType.ADD, ActionType.DELETE, ActionType.UPDATE),
            EventResource.UNSCHEDULABLE_POD: (),
        },
        reads_outside_spec=True,
        accepts_slices=True,
        bounded_scores=True,
    )
    plan_classes = (PolicyPlan,)

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self.args = _read_args(args or {})
        self._reservations_first = self.args.reservations_first

    @property
    def controller_settings(self) -> ResourcePolicySettings:
        """The settings of the resource policy controller."""
        return ResourcePolicySettings(self.args.drain_excess)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the policies that select the pod, its group in each, and other inputs."""
        policies = view.world.policies
        if not policies:
            return None
        return tuple(
            [
                (
                    policy.uid,
                    policy.group_selector(pod.labels),
                    _amounts(policy, pod, view),
                    self._requested(pod),
                    *self._outside(policy, pod, view),
                )
                for policy in policies.governing(pod)
            ]
        )

    def key_outside_spec(self, pod: PodInfo, view: View) -> Hashable:
        """Return the inputs outside the spec: time-outs, claims, and the pod's reservations."""
        policies = view.world.policies
        # Called for every pod: nearly all return here.
        if not (self._reservations_first or pod.namespace in policies.timeout_namespaces):
            return self._claimed(pod, view)
        keys: list[tuple[Hashable, ...]] = [
            self._outside(policy, pod, view) for policy in policies.governing(pod)
        ]
        keys.append((self._claimed(pod, view),))
        return tuple(keys) if any(any(key) for key in keys) else None

    def _claimed(self, pod: PodInfo, view: View) -> Hashable:
        """Return what the claims of a pod add to capped devices; None if no policy caps devices."""
        policies = view.world.policies
        if not pod.pod.spec.resource_claims or pod.namespace not in policies.device_namespaces:
            return None
        return tuple([_amounts(policy, pod, view) for policy in policies.governing(pod)])

    def _outside(self, policy: Policy, pod: PodInfo, view: View) -> tuple[int, Hashable]:
        reserved = view.reserved_key if self._reservations_first else None
        return timeouts_passed(policy, pod, view.now), reserved

    def _requested(self, pod: PodInfo) -> tuple[int, ...]:
        """Return the resources; a reservation must hold one of them to come first."""
        return tuple([resource for resource, _ in pod.request]) if self._reservations_first else ()

    def pre_filter(self, pod: PodInfo, view: View) -> PolicyPlan | Skip | Reject:
        """Find the one policy that selects the pod; two are a conflict."""
        policies = view.world.policies.governing(pod) if view.world.policies else []
        if not policies:
            return Skip()
        if len(policies) > 1:
            keys = ", ".join(policy.key for policy in policies)
            message = f"pod is matched by more than one ResourcePolicy: {keys}"
            return Reject(Code.UNRESOLVABLE, (message,))
        (policy,) = policies
        if message := self._missing_keys(policy, pod):
            return Reject(Code.UNRESOLVABLE, (message,))
        return PolicyPlan(
            self._units(policy, pod, view),
            ordered=self.args.strict_order,
            reserved=view.reserved_for_pod if self._reservations_first else None,
            requested=self._requested(pod),
        )

    def _missing_keys(self, policy: Policy, pod: PodInfo) -> str:
        if not self.args.rejects_missing_keys:
            return ""
        missing = ", ".join(policy.missing_keys(pod.labels))
        where = f"matchLabelKeys of ResourcePolicy {policy.key}"
        return f"pod lacks labels that are {where}: {missing}" if missing else ""

    def _units(self, policy: Policy, pod: PodInfo, view: View) -> PodUnits:
        usage = _usages(view.world).of(policy, pod.labels)
        return PodUnits(
            view.nodes,
            policy,
            usage,
            usage.amounts_of(pod),
            selectors=view.world.selectors,
            timeouts=timeouts_passed(policy, pod, view.now),
        )

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if a unit gets room, a node joins a unit that has room, or a policy changes."""
        policies = view.world.policies
        if event.resource == EventResource.RESOURCE_POLICY:
            return hints.policy_may_help(event, pod)
        if event.resource == EventResource.UNSCHEDULABLE_POD:
            return hints.own_update_may_help(event, pod, policies.in_namespace(pod.namespace))
        if event.resource not in (
            EventResource.NODE,
            EventResource.ASSIGNED_POD,
        ) or not self.traits.registers(event):
            return False
        governing_policies = policies.governing(pod)
        if len(governing_policies) != 1 or self._missing_keys(governing_policies[0], pod):
            # If no policy selects the pod any more, the change of the policy or pod requeued it.
            return False
        if event.resource == EventResource.ASSIGNED_POD and not hints.is_about_group(
            event, governing_policies[0], pod
        ):
            return False  # before anything is computed: many pods of other groups may wait
        units = self._units(governing_policies[0], pod, view)
        if event.resource == EventResource.NODE:
            return hints.node_may_help(event, units, view)
        return hints.pod_may_help(event, units, view)


def _usages(world: World) -> UnitTotalsCache:
    cache = world.caches.get(UnitTotalsCache)
    if cache is None:
        cache = world.caches[UnitTotalsCache] = UnitTotalsCache(world.nodes, world.devices)
    assert isinstance(cache, UnitTotalsCache)
    return cache


def _amounts(policy: Policy, pod: PodInfo, view: View) -> tuple[int, ...]:
    if pod.pod.spec.resource_claims and policy.caps_devices:
        return _usages(view.world).of(policy, pod.labels).amounts_of(pod)
    return amounts_of(pod, limited_resources(policy, view.nodes.resources))


def _read_args(given: Mapping[str, Any]) -> ResourcePolicyArgs:
    """Read the arguments; BadConfiguration lists every wrong field."""
    wrong = Arguments("resourcepolicy")
    args = wrong.read(ResourcePolicyArgs, given)
    names = dict(zip(args.__struct_encode_fields__, args.__struct_fields__, strict=True))
    for field, words in _SUPPORTED.items():
        value = getattr(args, names[field])
        if value not in words:
            wrong.append(not_supported(field, value, words))
    wrong.refuse_if_wrong()
    return args
