"""Rules for the traits of a plugin: its declarations must be true."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np

from holdfast.api.pod import Pod, ResourceRequirements
from holdfast.scheduling.engine.rejections import reject_all_nodes
from holdfast.scheduling.framework.declarations import declaration_fault
from holdfast.scheduling.framework.plugin import (
    AnyRows,
    ClusterEvent,
    Plugin,
    PostFilterResult,
    QueueingStrategy,
    RawScores,
    Scope,
)
from holdfast.scheduling.framework.points import overrides
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing.builders import a_reservation, typed
from holdfast.testing.plugin_laws import Case, prepare_case
from holdfast.testing.random_cluster import RandomCluster

_EVENTS_OF_CLASSIC = {
    "ResourceClass": "ClassicResourceClass",
    "ResourceClaim": "ClassicResourceClaim",
    "PodScheduling": "PodScheduling",
}


def check_declaration(plugin: Plugin) -> None:
    """Check that a plugin has a name, traits and no misplaced or renamed declarations."""
    assert isinstance(plugin.name, str) and plugin.name, "a plugin has a name"
    fault = declaration_fault(plugin)
    assert not fault, f"{plugin.name}: {fault}"
    asked = plugin.traits.reads_outside_spec or not overrides(plugin, Plugin.key_outside_spec)
    law = "key_outside_spec is called only for a plugin with reads_outside_spec"
    assert asked, f"{plugin.name}: {law}"


def check_reads(case: Case) -> None:
    """Check that ``reads`` obeys the traits ``ignores_requests`` and ``reads_outside_spec``."""
    plugin, traits = case.plugin, case.plugin.traits
    if traits.scope is Scope.CLUSTER:
        return
    if traits.ignores_requests:
        other = case.world.pod_info(_with_other_requests(case.pod.pod))
        assert _same_reads(case, other), f"{plugin.name}: reads ignores requests"
    other = case.world.pod_info(_of_equal_spec(case.pod.pod))
    if other.spec_key != case.pod.spec_key:
        return  # an ephemeral volume is the pod's own
    if not traits.reads_outside_spec:
        assert _same_reads(case, other), f"{plugin.name}: reads uses the spec only"
    else:
        one, two = [plugin.key_outside_spec(f, _plain_view(case, f)) for f in (case.pod, other)]
        different = one != two or _same_reads(case, other)
        assert different, (
            f"{plugin.name}: key_outside_spec has all that reads uses outside the spec"
        )


def _same_reads(case: Case, other: PodInfo) -> bool:
    one, two = [case.plugin.reads(f, _plain_view(case, f)) for f in (case.pod, other)]
    return one == two


def _plain_view(case: Case, pod_info: PodInfo) -> View:
    """Return a view without reservations, which are part of the class key anyway."""
    return View(case.world, pod_info, 0.0, reservations=False)


def _with_other_requests(pod: Pod) -> Pod:
    resources = ResourceRequirements(requests={"cpu": "123m", "memory": "45Mi"})
    containers = tuple(msgspec.structs.replace(c, resources=resources) for c in pod.spec.containers)
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, containers=containers)
    )


def _of_equal_spec(pod: Pod) -> Pod:
    """Return another pod with the same spec, namespace and visible labels."""
    labels = {**pod.metadata.labels, "example.com/no-selector-names-it": "x"}
    meta = msgspec.structs.replace(
        pod.metadata, name=f"{pod.name}-other", uid=f"{pod.uid}-other", labels=labels,
        annotations={"example.com/note": "x"}, owner_references=(),
    )  # fmt: skip
    return msgspec.structs.replace(pod, metadata=meta)


def check_comparable(case: Case) -> None:
    """Check ``comparable_plans``: plans can be compared, and equal plans are interchangeable."""
    if not case.plugin.traits.comparable_plans:
        return
    again = prepare_case(case.plugin, case.world, case.pod.pod)
    try:
        bool(case.plan == again.plan)
    except ValueError as ambiguous:
        raise AssertionError(f"{case.plugin.name}: plans are comparable") from ambiguous


def check_scores(case: Case, random: Random) -> None:
    """Check that raw scores are whole and normalized scores are in 0..100, for any set of rows."""
    name, rows, raw = case.plugin.name, case.rows, case.scores(case.rows)
    assert (raw == np.trunc(raw)).all(), f"{name}: raw scores are whole numbers"
    some = rows[sorted(random.sample(range(len(rows)), 1 + len(rows) // 2))]
    for left in (some, rows):
        final = _normalized(case, left)
        if final is not None:
            assert final.min() >= 0 and final.max() <= 100, f"{name}: scores end in 0..100"
    if case.plugin.traits.accepts_slices and len(rows) == case.world.nodes.size:
        sliced = _normalized(case, slice(0, len(rows)))
        same = final is sliced if sliced is None else (sliced == final).all()
        assert same, f"{name}: scores of a slice equal those of rows"


def check_pre_score(case: Case) -> None:
    """Check ``pre_score`` without ``score``: its scope is CLUSTER, it changes no verdict."""
    plugin, rows = case.plugin, case.rows
    if not case.outcome.methods.pre_scores or case.outcome.methods.scores:
        return
    law = "pre_score without score has the scope CLUSTER"
    assert plugin.traits.scope is Scope.CLUSTER, f"{plugin.name}: {law}"
    before = case.verdicts(rows) if case.outcome.filters else None
    case.plan.pre_score(rows)
    if before is not None:
        same = (case.verdicts(rows) == before).all()
        assert same, f"{plugin.name}: pre_score changes no verdict"


def _normalized(case: Case, rows: AnyRows) -> RawScores | None:
    """Return the normalized scores of these rows, or None if the plugin skips."""
    plan, methods = case.plan, case.outcome.methods
    if plan.pre_score(rows) is not None:
        return None
    raw = case.scores(rows)
    if methods.normalizes:
        return plan.normalize_score(rows, raw.copy())
    if methods.normalizes_by_range:
        low, high = float(raw.min()), float(raw.max())
        final: RawScores = plan.normalize_by_range(raw.copy(), low, high)
        single = [plan.normalize_by_range(float(one), low, high) for one in raw]
        assert (final == single).all(), (
            f"{case.plugin.name}: normalize_by_range treats each row by itself"
        )
        return final
    return raw


def check_hints(plugin: Plugin, cluster: RandomCluster, pod: Any) -> None:
    """Check that hints are bools or strategies, and pods that an event helps have a key of it."""
    if not overrides(plugin, Plugin.queueing_hint):
        return
    pod_info = cluster.world.pod_info(pod)
    view = View(cluster.world, pod_info, 0.0)
    node, assigned = next(iter(cluster.nodes.values())), next(iter(cluster.pods.values()), pod)
    other = typed(a_reservation("conformance"))
    events = [
        ClusterEvent("UnschedulablePod", "UpdatePodToleration", pod, pod),
        ClusterEvent("Unheard-of", "Delete", other, None),
    ]
    objects = [("Node", node), ("AssignedPod", assigned), ("Reservation", other)]
    objects += [(_EVENTS_OF_CLASSIC[kind], obj) for (kind, _), obj in cluster.classic.items()]
    for resource, obj in objects:
        events.append(ClusterEvent(resource, "Add", None, obj))
        events.append(ClusterEvent(resource, "Update", obj, obj))
        events.append(ClusterEvent(resource, "Delete", obj, None))
    hint = plugin.queueing_hint
    for event in events:
        result = hint(event, pod_info, view)
        law = f"{plugin.name}: queueing_hint returns a bool or a strategy for {event}"
        assert isinstance(result, bool | QueueingStrategy), law
        if result and plugin.traits.registers(event):
            keys = plugin.event_keys(event)
            has_key = keys is None or not set(keys).isdisjoint(plugin.pod_keys(pod_info))
            assert has_key, f"{plugin.name}: a pod that an event helps has a key of {event}"


def check_post_filter(case: Case) -> None:
    """Check that ``post_filter`` returns a result, with a plan and, if declared, without one.

    Equal seeds give equal results.
    """
    plugin = case.plugin
    if not overrides(plugin, Plugin.post_filter):
        return
    view = View(case.world, case.pod, 0.0)
    rejection = reject_all_nodes(view, [case.outcome])
    plans = [rejection.plans]
    plans += [{}] if plugin.traits.post_filter_without_plan else []
    for rejection.plans in plans:
        results = []
        for _ in range(2):
            rejection.rng = np.random.default_rng(7)
            results.append(plugin.post_filter(rejection, view))
        result = results[0]
        law = f"{plugin.name}: post_filter returns a PostFilterResult with its own name"
        assert isinstance(result, PostFilterResult) and result.plugin == plugin.name, law
        assert results[1] == result, f"{plugin.name}: equal seeds give equal results"
