"""The plugin: who is eligible, which nodes are tried, which one is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from holdfast.api.causes import invalid
from holdfast.api.pod import Pod
from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.arguments import Arguments, PluginArgs
from holdfast.framework.plugin import (
    Candidate,
    ClusterEvent,
    Code,
    Effect,
    Reject,
    State,
)
from holdfast.framework.rejection import Rejection, available
from holdfast.framework.view import View
from holdfast.plugins.default_preemption.dry_run import NO_VICTIMS, Question, dry_run

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
VICTIM_LEAVING = "preemption: not eligible due to a terminating pod on the nominated node."
WAITING = "waiting for the preemption for this pod to be finished"
BY_RESERVATION = "preemption: not eligible, preemption by reservations is not built yet."
_SHIFT = 2**31
PERCENTAGE, ABSOLUTE = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"


class PreemptionArgs(PluginArgs, frozen=True):
    """DefaultPreemptionArgs: how many candidates are enough."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class DefaultPreemption:
    """Name the node where the least is lost, and who has to go there."""

    name: ClassVar[str] = "DefaultPreemption"
    epochs: ClassVar[tuple[str, ...]] = ()
    hears: ClassVar[Mapping[str, tuple[str, ...]]] = {"Pod": ("Delete",)}

    def __init__(self, args: Mapping[str, Any]) -> None:
        wrong = Arguments(self.name)
        given = wrong.read(PreemptionArgs, args)
        percentage, absolute = (
            given.min_candidate_nodes_percentage,
            given.min_candidate_nodes_absolute,
        )
        if not 0 <= percentage <= 100:
            wrong.append(invalid(PERCENTAGE, percentage, "not in valid range [0, 100]"))
        if absolute < 0:
            wrong.append(invalid(ABSOLUTE, absolute, "not in valid range [0, inf)"))
        if percentage == 0 and absolute == 0:
            for name, other in ((PERCENTAGE, ABSOLUTE), (ABSOLUTE, PERCENTAGE)):
                wrong.append(invalid(name, 0, f"cannot be zero at the same time as {other}"))
        wrong.refuse_if_wrong()

    def pre_enqueue(self, pod: PodFacts, view: View) -> Reject | None:
        """Keep a preemptor out until its victims have been asked to leave."""
        if view.world.evictions.going_on(pod.uid):
            return Reject(Code.UNRESOLVABLE, (WAITING,))
        return None

    def after_reject(self, _state: State, rejection: Rejection, view: View) -> Effect:
        """Dry-run every node that eviction could help; nobody is evicted here."""
        pod = view.pod
        refusal = self._not_eligible(pod, rejection, view)
        if refusal:
            return Effect(self.name, refusal)
        candidates, words, errors = self._dry_runs(rejection, view)
        if errors and not candidates:
            return Effect(self.name, f"preemption: {'; '.join(errors)}", code=Code.ERROR)
        if not candidates:
            return Effect(
                self.name, f"preemption: {available(rejection.nodes, words)}", nominate=""
            )
        ranked = sorted(candidates, key=lambda candidate: cost(candidate, view.now))
        best = ranked[0]
        tied = tuple(c.node for c in ranked if cost(c, view.now) == cost(best, view.now))
        return Effect(
            self.name, nominate=best.node, evict=best.victims, code=Code.PASS,
            candidates=tuple(candidates), tied=tied,
        )  # fmt: skip

    def _not_eligible(self, pod: PodFacts, rejection: Rejection, view: View) -> str:
        if pod.pod.spec.preemption_policy == "Never":
            return NEVER
        if pod.reserve_for:
            return BY_RESERVATION
        nominations = view.world.nominations
        node = nominations.node_of(pod.uid) or pod.pod.status.nominated_node_name
        row = view.nodes.row_of.get(node)
        if row is None or rejection.codes[row] == Code.UNRESOLVABLE:
            return ""
        leaving = any(
            other.priority < pod.priority and _is_leaving(other.pod)
            for other in view.nodes.pods_on(row).values()
        )
        return VICTIM_LEAVING if leaving else ""

    def _dry_runs(
        self, rejection: Rejection, view: View
    ) -> tuple[list[Candidate], Mapping[str, int], list[str]]:
        """Try every node that eviction could help: candidates, what stood in the way, errors."""
        budgets = tuple(view.world.budgets.values())
        question = Question(
            view.pod, view.nodes, rejection.filters, view.nominated, budgets, view.now
        )
        tried = rejection.rows_with(Code.UNSCHEDULABLE).tolist()
        words: Counter[str] = Counter({NOT_HELPFUL: rejection.nodes - len(tried)})
        candidates: list[Candidate] = []
        errors: list[str] = []
        if not view.nodes.pods_below(view.pod.priority):
            # The common case: everybody is as important. No need to ask each node.
            words[NO_VICTIMS] = len(tried)
            tried = []
        for row in tried:
            found = dry_run(question, row)
            if isinstance(found, Candidate):
                candidates.append(found)
            elif found.code is Code.ERROR:
                errors.extend(found.reasons)
            else:
                words.update(found.reasons)
        return candidates, {reason: count for reason, count in words.items() if count}, errors

    def hint(self, _event: ClusterEvent, _pod: PodFacts, _view: View) -> bool:
        """Nothing by itself: what was preempted comes back through the other plugins."""
        return False


def cost(candidate: Candidate, now: float) -> tuple[int, int, int, int, float]:
    """What a candidate costs, most weighty first; smaller is better.

    Broken budgets, the most important victim, all victims' priorities, how many, and how long
    ago the most important ones started (the later the better).
    """
    victims = candidate.victims
    highest = max((v.priority for v in victims), default=-_SHIFT)
    return (
        candidate.violations,
        highest,
        sum(v.priority + _SHIFT for v in victims),
        len(victims),
        -_earliest(victims, highest, now),
    )


def _earliest(victims: Sequence[PodFacts], priority: int, now: float) -> float:
    return min((v.started(now) for v in victims if v.priority == priority), default=now)


def _is_leaving(pod: Pod) -> bool:
    return pod.terminating and any(
        c.type == "DisruptionTarget" and c.status == "True" and c.reason == "PreemptionByScheduler"
        for c in pod.status.conditions
    )
