"""One node's dry run: take everybody less important away, then let back whom we can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.hypothesis import judge_beside_nominated
from holdfast.framework.plugin import Candidate, Change, Code, Scope, State
from holdfast.framework.view import View
from holdfast.framework.words import Word
from holdfast.plugins.default_preemption.budgets import Budgets

NAME = "DefaultPreemption"
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass(frozen=True, slots=True)
class Question:
    """What stays the same from node to node."""

    view: View
    filters: Sequence[tuple[Any, State]]
    budgets: Budgets
    spares: Callable[[PodFacts], bool] | None = None
    """Who is never evicted for this pod."""

    def lower_on(self, row: int) -> list[PodFacts]:
        """Pods that might have to go. What stands in for a reservation is no pod."""
        ceiling = self.view.pod.priority
        there = self.view.nodes.pods_on(row).values()
        lower = [pod for pod in there if pod.priority < ceiling and not pod.reserve_for]
        return [p for p in lower if not self.spares(p)] if self.spares is not None else lower

    def objection(self, row: int, gone: Sequence[PodFacts]) -> Word | None:
        """Why the row would still not do were these pods gone, or None."""
        beside = self.view.world.nominations.beside(self.view.pod, row)
        return judge_beside_nominated(self.filters, row, beside, Change(removed={row: gone}))

    def about_pods(self) -> Question:
        """The same without the filters that look at the node alone: no eviction moves those."""
        moving = tuple(
            (plugin, state)
            for plugin, state in self.filters
            if getattr(plugin, "scope", None) is not Scope.NODE
        )
        return replace(self, filters=moving)


def dry_run(question: Question, row: int) -> Candidate | Word:
    """Find the fewest and least important victims on a row, or say why it is no use."""
    nodes, now = question.view.nodes, question.view.now
    lower = question.lower_on(row)
    if not lower:
        return Word(NAME, Code.UNRESOLVABLE, (NO_VICTIMS,))
    word = question.objection(row, lower)
    if word is not None:
        return word
    lower.sort(key=lambda pod: importance(pod, now))
    beyond = {lower[place].uid for place in question.budgets.violating(lower)}
    order = [p for p in lower if p.uid in beyond] + [p for p in lower if p.uid not in beyond]
    gone = list(order)
    question = question.about_pods()
    for pod in order:
        without = [p for p in gone if p is not pod]
        if question.objection(row, without) is None:
            gone = without
    if not gone:
        # An extender refuses the node; that no plugin does, evicting nobody would show.
        words = f'expected at least one victim pod on node "{nodes.names[row]}"'
        return Word(NAME, Code.ERROR, (words,))
    victims = tuple(sorted(gone, key=lambda pod: importance(pod, now)))
    return Candidate(nodes.names[row], victims, sum(p.uid in beyond for p in victims))


def importance(pod: PodFacts, now: float) -> tuple[int, float]:
    """Smaller is more important: higher priority first, then whoever started earlier."""
    return (-pod.priority, pod.started(now))
