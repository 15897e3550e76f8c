"""Plan when pods are evicted because of tainted devices, and the condition of DeviceTaintRules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.api.devices import DeviceResult, DeviceTaintRule, ResourceClaim
from holdfast.api.meta import is_controlled_by
from holdfast.api.node import Taint
from holdfast.api.pod import Pod, Toleration, claim_name
from holdfast.api.timestamps import rfc3339, seconds_of
from holdfast.api.tolerations import NO_EXECUTE, tolerates
from holdfast.state.devices.allocated_devices import device_id
from holdfast.state.devices.claims import is_reserved_for
from holdfast.state.devices.slices import DeviceId

EVICTION_IN_PROGRESS = "EvictionInProgress"

ClaimOf = Callable[[str], ResourceClaim | None]
TaintsOf = Callable[[DeviceResult], Iterable[tuple[Taint, str]]]
"""Returns the NoExecute taints of a device, with the uid of the rule that adds each, or ""."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """When to evict a pod, in seconds since the epoch, and the uids of rules that cause it."""

    at: float
    rules: frozenset[str] = frozenset()


def plan_eviction(pod: Pod, claim_of: ClaimOf, taints_of: TaintsOf) -> Eviction | None:
    """Return when a pod is evicted: at the earliest time of any taint of any of its devices.

    Pods that are not assigned, are terminating or have finished are not evicted. A taint without
    a time evicts no pod.
    """
    if not pod.spec.node_name or pod.terminating or pod.finished:
        return None
    times: list[float] = []
    rules: set[str] = set()
    for claim in claims_in_use(pod, claim_of):
        for result in claim.results:
            for taint, rule in taints_of(result):
                seconds = tolerated_seconds(taint, result.tolerations)
                added = seconds_of(taint.time_added)
                if seconds is not None and added is not None:
                    times.append(added + seconds)
                    rules |= {rule} - {""}
    return Eviction(min(times), frozenset(rules)) if times else None


def tolerated_seconds(taint: Taint, tolerations: Iterable[Toleration]) -> float | None:
    """Return for how many seconds a taint is tolerated, None if without limit.

    The smallest limit counts, unless a toleration has none.

    >>> tolerated_seconds(Taint("k", effect="NoExecute"), [])
    0.0
    """
    limits = [t.toleration_seconds for t in tolerations if tolerates(t, taint)]
    if None in limits:
        return None
    return float(min((max(seconds, 0) for seconds in limits if seconds is not None), default=0))


def claims_in_use(pod: Pod, claim_of: ClaimOf) -> Iterator[ResourceClaim]:
    """Return the allocated claims that are reserved for the pod, and were made for it if generated.

    The claim for extended resources counts as well.
    """
    for name, must_own in _claim_names(pod):
        claim = claim_of(name)
        if (
            claim is not None
            and claim.status.allocation is not None
            and is_reserved_for(claim, pod.uid)
            and (not must_own or is_controlled_by(claim, pod))
        ):
            yield claim


def uses_claims(pod: Pod) -> bool:
    """Return whether a pod names a claim; a claim for extended resources counts too."""
    return bool(pod.structured_claims) or pod.status.extended_resource_claim_status is not None


def rule_selects(rule: DeviceTaintRule, device: DeviceId) -> bool:
    """Return whether a rule selects a device.

    A rule without a selector selects no device, as in upstream's controller. In upstream's slice
    tracker, and in ours, such a rule applies to all devices.
    """
    selector = rule.spec.device_selector
    if selector is None:
        return False
    wanted = (selector.driver, selector.pool, selector.device)
    return all(want is None or want == have for want, have in zip(wanted, device, strict=True))


def rule_taints(
    rules: Iterable[DeviceTaintRule], result: DeviceResult
) -> Iterator[tuple[Taint, str]]:
    """Return the NoExecute taints that rules add to an allocated device, with the rules' uids."""
    for rule in rules:
        if rule.spec.taint.effect == NO_EXECUTE and rule_selects(rule, device_id(result)):
            yield rule.spec.taint, rule.uid


@dataclass(frozen=True, slots=True)
class RuleProgress:
    """The counts of a rule's evicted and pending pods, and of its devices for the effect None."""

    pending_pods: int = 0
    pending_namespaces: int = 0
    evicted_pods: int = 0
    published_devices: int = 0
    allocated_devices: int = 0


def rule_condition(rule: DeviceTaintRule, progress: RuleProgress, now: float) -> dict[str, Any]:
    """Return the raw condition EvictionInProgress of a rule."""
    effect, sentences = rule.spec.taint.effect, []
    pods, spaces = progress.pending_pods, progress.pending_namespaces
    where = "1 namespace" if spaces == 1 else f"{spaces} different namespaces"
    pending = False
    if effect == NO_EXECUTE and pods:
        reason, pending = "PodsPendingEviction", True
        verb = "needs" if pods == 1 else "need"
        sentences.append(f"{_count(pods, 'pod')} {verb} to be evicted in {where}.")
    elif effect == NO_EXECUTE:
        reason = "Completed" if progress.evicted_pods else "NotStarted"
    elif effect == "None":
        reason = "NoEffect"
        sentences += [
            f"{_count(progress.published_devices, 'published device')} selected.",
            f"{_count(progress.allocated_devices, 'allocated device')} selected.",
            f"{_count(pods, 'pod')} would be evicted in {where} if the effect was NoExecute.",
            "This information will not be updated again.",
            "Recreate the DeviceTaintRule to trigger an update.",
        ]
    else:
        reason = "OtherEffect"
        sentences.append("Eviction only happens for the NoExecute effect.")
    if progress.evicted_pods:
        sentences.append(
            f"{_count(progress.evicted_pods, 'pod')} evicted since starting the controller."
        )
    return {
        "type": EVICTION_IN_PROGRESS,
        "status": str(pending),
        "reason": reason,
        "message": " ".join(sentences),
        "observedGeneration": rule.metadata.generation,
        "lastTransitionTime": rfc3339(now),
    }


def _claim_names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Yield the names of the pod's claims, and whether the pod must own the claim."""
    for entry in pod.structured_claims:
        if name := claim_name(pod, entry):
            yield name, entry.resource_claim_name is None
    special = pod.status.extended_resource_claim_status
    if special is not None:
        yield special.resource_claim_name, True


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
