"""Run plugins of the former contract, whose methods were handed a state, behind the present one.

A plugin that does not derive from ``Plugin`` yet is wrapped: its state becomes a plan. This module
goes when the last plugin is converted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from holdfast.framework.plan import NodeFilter, NodeScorer, PodPlan, Reserver, Tiers
from holdfast.framework.plugin import Plugin
from holdfast.framework.preemption_rules import PreemptionRules
from holdfast.framework.reservation_options import ReservationAllocator, ReservationFilter
from holdfast.framework.values import NO_CHANGE, PodChange, Reject, Rows, Skip

State = Any
Method = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """Only these rows are suitable."""

    state: State
    rows: Rows


@dataclass(frozen=True, slots=True)
class PreFilterState:
    """A state, and how it is used."""

    state: State
    filters: bool = True
    scores: bool = True
    score_error: str = ""
    row_scope: bool = False


class FormerPlan(PodPlan):
    """The state of a plugin of the former contract."""

    def __init__(self, former: Any, state: State) -> None:
        self.former, self.state = former, state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormerPlan) and bool(self.state == other.state)

    __hash__ = None  # type: ignore[assignment]


class FormerPlugin(Plugin):
    """A plugin of the former contract."""

    plan_class: type[FormerPlan]
    __class__ = property(lambda self: type(self.former))  # type: ignore[assignment]

    def __init__(self, former: Any) -> None:
        self.former = former
        self.name, self.traits = former.name, former.traits
        self.args = getattr(former, "args", None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.former, name)

    def pre_filter(self, pod: Any, view: Any) -> PodPlan | Skip | Reject:
        """Wrap the state."""
        has = hasattr(self.former, "pre_filter")
        result = self.former.pre_filter(pod, view) if has else None
        if isinstance(result, Skip | Reject):
            return result
        rows = None
        if isinstance(result, PreFilterResult):
            result, rows = result.state, result.rows
        if not isinstance(result, PreFilterState):
            result = PreFilterState(result)
        plan: Any = self.plan_class(self.former, result.state)
        plan.allowed_rows, plan.row_scope = rows, result.row_scope
        plan.filters, plan.scores = result.filters, result.scores
        plan.score_error = result.score_error
        return plan  # type: ignore[no-any-return]


def converted(plugin: Any) -> Plugin:
    """Return a plugin of the present contract; a wrapper for one of the former."""
    return plugin if issubclass(type(plugin), Plugin) else _wrapper(type(plugin))(plugin)  # type: ignore[arg-type]


def _state(plugin: FormerPlugin, plans: Any) -> State:
    plan = plans.get(plugin.name)
    return plan.state if isinstance(plan, FormerPlan) else None


_PASSED_ON = ("reads", "key_outside_spec", "pre_enqueue", "queueing_hint", "pod_keys", "event_keys",
              "prepare", "filter_needs_preparation", "post_filter_needs_preparation",
              "prepare_post_filter", "calls_before_eviction", "ignores_resource")  # fmt: skip
_OF_PLAN = {
    "filter": NodeFilter, "reasons": NodeFilter, "filter_each": NodeFilter,
    "count_reasons": NodeFilter, "reason_groups": NodeFilter, "explain": NodeFilter,
    "condition_reason": NodeFilter, "retry_at": NodeFilter,
    "score": NodeScorer, "pre_score": NodeScorer, "normalize_score": NodeScorer,
    "normalize_by_range": NodeScorer, "score_table": NodeScorer,
    "tier": Tiers, "tier_rows": Tiers, "preempts_before_next_tier": Tiers,
    "pod_limits": PreemptionRules, "pod_limits_in_sets": PreemptionRules,
    "row_sets": PreemptionRules, "required_resources": PreemptionRules,
    "reserve": Reserver, "unreserve": Reserver, "pre_bind": Reserver, "undo_pre_bind": Reserver,
    "pre_bind_pre_flight": Reserver, "may_end_pending": Reserver,
    "writes_nominated_node": Reserver, "post_bind": Reserver,
    "filter_reservations": ReservationFilter, "filter_without_reservation": ReservationFilter,
    "reservation_reasons": ReservationFilter, "filter_pre_allocation": ReservationFilter,
}  # fmt: skip


@cache
def _wrapper(former: type) -> type[FormerPlugin]:
    methods: dict[str, Any] = {name: _on(name) for name in _PASSED_ON if hasattr(former, name)}
    if hasattr(former, "post_filter"):
        methods["post_filter"] = lambda self, rejection, view: self.former.post_filter(
            _state(self, rejection.plans), rejection, view
        )
    if hasattr(former, "permit"):
        methods["permit"] = lambda self, placement, waiting: self.former.permit(
            _state(self, placement.plans), placement, waiting
        )
    if hasattr(former, "bind"):
        methods["bind"] = lambda self, placement: self.former.bind(
            _state(self, placement.plans), placement
        )
    plan = _plan_class(former)
    methods["plan_class"] = plan
    methods["plan_classes"] = (plan,) if len(plan.__mro__) > len(FormerPlan.__mro__) + 1 else ()
    if not methods["plan_classes"] and not hasattr(former, "pre_filter"):
        methods["pre_filter"] = Plugin.pre_filter
    return type(former.__name__, (FormerPlugin,), methods)


def _on(name: str) -> Method:
    return lambda self, *arguments: getattr(self.former, name)(*arguments)


def _with_state(name: str) -> Method:
    return lambda self, *arguments: getattr(self.former, name)(self.state, *arguments)


def _plan_class(former: type) -> type[FormerPlan]:  # noqa: C901
    methods: dict[str, Any] = {}
    bases: dict[type, None] = {}
    for name, base in _OF_PLAN.items():
        if hasattr(former, name):
            methods[name] = _with_state(name)
            bases[base] = None
    if hasattr(former, "prepare_filter"):
        methods["prepare_rows"] = lambda self: self.former.prepare_filter(self.state)
    if "filter" in methods:
        _add_filter_rows(former, methods)
    for name in ("preemption_refusal", "protected_victims"):
        if hasattr(former, name):
            methods[name] = _on(name)
            bases[PreemptionRules] = None
    if hasattr(former, "depends_on_pods"):
        bases[PreemptionRules] = None
        methods["depends_on_pods"] = _depends
    if hasattr(former, "filter_and_score_row") and "score" in methods:
        methods["score_row"] = lambda self, row: self.former.filter_and_score_row(self.state, row)[
            1
        ]
    if hasattr(former, "with_options"):
        bases[ReservationAllocator] = None
        methods["with_options"] = _with_options
    if ReservationFilter in bases or ReservationAllocator in bases:
        bases.pop(NodeFilter, None)
    return type(f"{former.__name__}Plan", (FormerPlan, *bases), methods)


def _depends(self: Any) -> Any:
    rows = self.former.depends_on_pods(self.state)
    return False if rows is None else rows


def _add_filter_rows(former: type, methods: dict[str, Any]) -> None:
    if hasattr(former, "filter_and_score_row"):

        def filter_row(self: Any, row: int, change: PodChange = NO_CHANGE) -> int:
            if not change:
                return int(self.former.filter_and_score_row(self.state, row)[0])
            if hasattr(former, "filter_row"):
                return int(self.former.filter_row(self.state, row, change))
            return int(self.former.filter(self.state, np.array([row], np.intp), change)[0])

        methods["filter_row"] = filter_row
    elif hasattr(former, "filter_row"):
        methods["filter_row"] = lambda self, row, change=NO_CHANGE: self.former.filter_row(
            self.state, row, change
        )


def _with_options(self: Any, options: Any) -> Any:
    made = type(self)(self.former, self.former.with_options(self.state, options))
    for name in ("allowed_rows", "row_scope", "filters", "scores", "score_error"):
        setattr(made, name, getattr(self, name))
    return made
