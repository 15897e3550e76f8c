"""Find what is wrong with a plugin class before it runs: methods and declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plan import NodeFilter, NodeScorer, PodPlan, Reserver, Tiers
from holdfast.scheduling.framework.plugin import Plugin
from holdfast.scheduling.framework.points import overrides
from holdfast.scheduling.framework.preemption_rules import PreemptionRules
from holdfast.scheduling.framework.reservation_options import (
    ReservationAllocator,
    ReservationFilter,
)
from holdfast.scheduling.framework.traits import Scope, Traits
from holdfast.state.columns.epochs import Epoch

TRAIT_NAMES = tuple(field.name for field in fields(Traits))
_PLANS = (
    NodeFilter, NodeScorer, Tiers, PreemptionRules, Reserver, ReservationFilter,
    ReservationAllocator,
)  # fmt: skip
_PLAN_METHODS = {
    name: plan
    for plan in reversed(_PLANS)
    for name, member in vars(plan).items()
    if callable(member) and not name.startswith("_")
}
"""The class of plans to which each method belongs."""
_TOGETHER: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = (
    (Reserver.reserve, Reserver.unreserve),
    (Reserver.unreserve, Reserver.reserve),
    (Reserver.pre_bind, Reserver.undo_pre_bind),
    (Reserver.undo_pre_bind, Reserver.pre_bind),
    (Plugin.event_keys, Plugin.pod_keys),
    (Plugin.pod_keys, Plugin.event_keys),
)
"""Methods that have an effect only together with another one."""
_MUST: dict[type, tuple[Callable[..., Any], ...]] = {
    ReservationFilter: (
        ReservationFilter.filter_reservations,
        ReservationFilter.filter_without_reservation,
        ReservationFilter.reservation_reasons,
    ),
    ReservationAllocator: (ReservationAllocator.with_options,),
}
"""Methods without a default."""


def declaration_fault(plugin: object) -> str:
    """Return what is wrong with a plugin's declarations, or ""."""
    return next(_faults(plugin), "")


def _faults(plugin: object) -> Iterator[str]:
    kind = type(plugin).__name__
    hint = "(from holdfast.plugin import Traits)"
    misplaced = [name for name in TRAIT_NAMES if hasattr(plugin, name)]
    if misplaced:
        fixed = ", ".join(f"{name}=..." for name in misplaced)
        yield (
            f"class {kind} sets {', '.join(misplaced)}, which has no effect: write "
            f"`traits = Traits({fixed})` instead {hint}"
        )
    if not isinstance(plugin, Plugin):
        yield (
            f"class {kind} is no plugin: derive it from Plugin (from holdfast.plugin import Plugin)"
        )
        return
    if not isinstance(plugin.traits, Traits):
        yield f"class {kind} has no traits: write `traits = Traits()` in it {hint}"
        return
    wrong = _wrong_types(plugin, kind)
    if wrong:
        yield wrong
        return
    yield from _unknown_words(plugin.traits, kind)
    if not isinstance(plugin, PodPlan):
        for name, plan in _PLAN_METHODS.items():
            if callable(getattr(plugin, name, None)):
                yield (
                    f"class {kind} has a method {name}, which is never called: write it in a class "
                    f"derived from {plan.__name__}, which pre_filter returns"
                )
    yield from _point_faults(plugin, kind)
    for plan_class in plugin.plan_classes:
        yield from _plan_faults(plan_class)


def _wrong_types(plugin: Plugin, kind: str) -> str:
    """Describe a declaration of the wrong type, or return ""."""
    traits, events = plugin.traits, plugin.traits.events_to_register
    if not isinstance(traits.scope, Scope):
        return f"class {kind}: scope is {traits.scope!r}: write a member of Scope"
    if not _is_tuple_of(traits.epochs, str):
        return f"class {kind}: epochs is {traits.epochs!r}: write a tuple of epochs"
    if events is not None and not (
        isinstance(events, Mapping) and all(_is_tuple_of(of, str) for of in events.values())
    ):
        return (
            f"class {kind}: events_to_register is {events!r}: write a dict with a tuple of actions "
            "for each resource"
        )
    if not _is_tuple_of(plugin.plan_classes, type):
        return f"class {kind}: plan_classes is {plugin.plan_classes!r}: write a tuple of classes"
    return ""


def _is_tuple_of(value: object, kind: type) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, kind) for item in value)


def _unknown_words(traits: Traits, kind: str) -> Iterator[str]:
    """Describe misspelt epochs and events: results would never expire, and hints never run."""
    events = traits.events_to_register or {}
    for what, names, words in (
        ("epoch", traits.epochs, Epoch),
        ("resource of events", events, EventResource),
        ("action of events", [action for of in events.values() for action in of], ActionType),
    ):
        for name in names:
            if name not in [*words]:
                near = get_close_matches(name, [*words], 1)
                advice = f"did you mean {near[0]}" if near else f"known are {', '.join(words)}"
                yield f"class {kind}: {name!r} is no {what}: {advice}"


def _point_faults(plugin: Plugin, kind: str) -> Iterator[str]:
    if overrides(plugin, Plugin.pre_filter):
        if not plugin.plan_classes:
            yield (
                f"class {kind} has pre_filter: name the classes of what it returns, "
                "`plan_classes = (MyPlan,)`"
            )
        if plugin.traits.scope is not Scope.CLUSTER and not overrides(plugin, Plugin.reads):
            yield (
                f"class {kind} has no method reads: its scope is not CLUSTER, so results are "
                "cached by what reads returns"
            )
        elif plugin.traits.reads_outside_spec and not (
            overrides(plugin, Plugin.reads) or overrides(plugin, Plugin.key_outside_spec)
        ):
            yield f"class {kind} has reads_outside_spec, but no method reads"
    elif plugin.plan_classes:
        yield f"class {kind} has no pre_filter, so nothing returns its plan"
    if plugin.traits.scope is Scope.CLUSTER and any(
        issubclass(plan, ReservationFilter) for plan in plugin.plan_classes
    ):
        yield (
            f"class {kind} filters reservations, whose results are part of a cached plan: its "
            "scope must not be CLUSTER"
        )
    yield from _incomplete(type(plugin))


def _plan_faults(plan: type) -> Iterator[str]:
    kind = plan.__name__
    if not issubclass(plan, _PLANS):
        yield f"class {kind} is no plan: derive it from {', '.join(p.__name__ for p in _PLANS[:5])}"
        return
    if issubclass(plan, NodeFilter):
        yield from _filter_faults(plan)
    elif issubclass(plan, PreemptionRules):
        yield f"class {kind} has PreemptionRules, but is no NodeFilter"
    if issubclass(plan, NodeScorer) and not (
        overrides(plan, NodeScorer.score) or overrides(plan, NodeScorer.pre_score)
    ):
        yield f"class {kind} is a NodeScorer without a method score"
    if issubclass(plan, Reserver) and not any(
        overrides(plan, method)
        for method in (Reserver.reserve, Reserver.pre_bind, Reserver.post_bind)
    ):
        yield f"class {kind} is a Reserver without reserve, pre_bind or post_bind"
    if issubclass(plan, Tiers) and not overrides(plan, Tiers.tier):
        yield f"class {kind} has Tiers without a method tier"
    yield from _incomplete(plan)


def _filter_faults(plan: type) -> Iterator[str]:
    kind = plan.__name__
    if not overrides(plan, NodeFilter.filter):
        yield f"class {kind} is a NodeFilter without a method filter"
    if not overrides(plan, NodeFilter.reasons) and not _has_reason(plan):
        yield f"class {kind} is a NodeFilter without `reason: str` or a method reasons"
    for base, methods in _MUST.items():
        for method in methods if issubclass(plan, base) else ():
            if not overrides(plan, method):
                yield f"class {kind} is a {base.__name__} without a method {method.__name__}"


def _has_reason(plan: type) -> bool:
    """Return whether a class has a reason, or each of its plans has one."""
    own = plan.__mro__[: plan.__mro__.index(NodeFilter)]
    each = any("reason" in vars(kind).get("__annotations__", {}) for kind in own)
    return each or bool(getattr(plan, "reason", ""))


def _incomplete(author: type) -> Iterator[str]:
    kind = author.__name__
    for method, other in _TOGETHER:
        if overrides(author, method) and not overrides(author, other):
            yield f"class {kind} has a method {method.__name__}, but not {other.__name__}"
