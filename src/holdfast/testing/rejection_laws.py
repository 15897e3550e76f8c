"""Rules for results about rejected rows: retry time, row sets, errors, reason, tiers."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import msgspec
import numpy as np

from holdfast.api.timestamps import parse_rfc3339
from holdfast.scheduling.framework.plugin import (
    NodeFilter,
    PodChange,
    PodLimits,
    Rows,
    Scope,
    Tiers,
)
from holdfast.scheduling.framework.points import overrides
from holdfast.scheduling.framework.preemption_rules import rules_of
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing.plugin_laws import Case, prepare_case
from holdfast.testing.random_cluster import RandomCluster

_LONGEST = 10.0**7
"""The longest time ahead that the rules test, in seconds."""


def check_retry_at(case: Case, random: Random) -> None:
    """Check that ``retry_at`` is in the future; until then rejected rows keep their verdicts."""
    plugin, name = case.plugin, case.plugin.name
    if not overrides(case.plan, NodeFilter.retry_at):
        return
    known = plugin.traits.reads_outside_spec or plugin.traits.scope is Scope.CLUSTER
    assert known, f"{name}: a plugin with retry_at reads the time, so it reads outside the spec"
    created = case.pod.pod.metadata.creation_timestamp
    now = (parse_rfc3339(created) if created else 0.0) + random.choice((0.0, _seconds(random)))
    at_now = prepare_case(case.plugin, case.world, case.pod.pod, now)
    rejected = _rejected(at_now)
    if not len(rejected):
        return
    verdicts = at_now.verdicts(rejected)
    time = at_now.plan.retry_at(case.pod, rejected)
    assert time is None or time > now, f"{name}: retry_at is later than now"
    span = (now + _LONGEST if time is None else time) - now
    for part in (random.random(), 1 - 1e-6):
        later = prepare_case(case.plugin, case.world, case.pod.pod, now + part * span)
        same = later.outcome.filters and (later.verdicts(rejected) == verdicts).all()
        assert same, f"{name}: rejected rows stay rejected until retry_at"


def check_row_sets(case: Case, cluster: RandomCluster) -> None:
    """Check ``row_sets``: pods that are added to some rows count only in the sets of these rows.

    The verdicts equal those of a world in which the pods are on these rows.
    """
    plugin, name, nodes, rows = case.plugin, case.plugin.name, case.world.nodes, case.rows
    sets = rules_of(case.plan).row_sets()
    if sets is None:
        return
    scope = plugin.traits.scope
    assert scope in (Scope.DOMAIN, Scope.CLUSTER), f"{name}: row sets need the scope DOMAIN"
    assert sets.dtype == np.bool_, f"{name}: row_sets is an array of bools"
    assert sets.shape[1] == nodes.capacity, f"{name}: row_sets has the capacity of the node table"
    changed = cluster.random.sample(rows.tolist(), min(len(rows), 3))
    added = {row: [_another(case, cluster, row)] for row in changed}
    plain, asked = case.verdicts(rows), case.verdicts(rows, PodChange(added))
    inside = np.any(sets[np.any(sets[:, changed], axis=1)], axis=0)[rows]
    outside = ~inside & ~np.isin(rows, changed)
    assert (asked == plain)[outside].all(), f"{name}: a pod counts only in the sets of its row"
    fork = case.world.fork()
    for row, pods in added.items():
        fork.nodes.add_pod(pods[0], nodes.names[row])
    real = prepare_case(case.plugin, fork, case.pod.pod)
    same = not real.outcome.filters or (real.verdicts(rows) == asked).all()
    assert same, f"{name}: verdicts with pods added to several rows equal those after it"
    limits = rules_of(case.plan).pod_limits_in_sets(PodChange(added))
    if limits is not None:
        _check_limits(case, limits, added)
    rejected = rows[(asked != 0) & (plain == 0)]
    groups = case.plan.reason_groups(rejected)
    groups = rejected if groups is None else groups
    reasons: dict[int, tuple[str, ...]] = {}
    for row, group in zip(rejected.tolist(), groups.tolist(), strict=True):
        row_reasons = case.plan.reasons(row, PodChange(added))
        assert row_reasons, f"{name}: a rejection with pods added has reasons"
        law = f"{name}: rows of one group have the same reasons with pods added"
        assert reasons.setdefault(group, row_reasons) == row_reasons, law


def _check_limits(case: Case, limits: PodLimits, added: Mapping[int, list[PodInfo]]) -> None:
    """Check that a row without its own pods passes within its limits, with the added pods."""
    for row in case.rows.tolist():
        if limits.unknown_rows is not None and limits.unknown_rows[row]:
            continue
        assert row not in added, f"{case.plugin.name}: rows of the change are unknown"
        removed = {row: [*case.world.nodes.pods_on(row).values()]}
        changes = (PodChange(added, removed), PodChange(removed=removed))
        passes = all(not case.verdicts(np.array([row]), change)[0] for change in changes)
        left = [
            limit.remaining[row] + sum(map(limit.count_of, removed[row])) for limit in limits.limits
        ]
        law = f"{case.plugin.name}: a row passes within its limits in sets"
        assert bool(min(left, default=0) >= 0) is passes, law


def check_filter_each(case: Case) -> None:
    """Check that ``filter_each`` returns, for each row, the result of ``filter`` for that row."""
    plugin, rows = case.plugin, case.rows
    if not overrides(case.plan, NodeFilter.filter_each):
        return
    verdicts = case.plan.filter_each(rows)
    alone = [int(case.verdicts(rows[i : i + 1])[0]) for i in range(len(rows))]
    assert verdicts.tolist() == alone, f"{plugin.name}: filter_each equals filter of each row alone"


def check_condition_reason(case: Case) -> None:
    """Check that ``condition_reason`` returns "" or a valid reason of an event."""
    plugin, rejected = case.plugin, _rejected(case)
    if len(rejected) and len(rejected) == len(case.rows):
        reason = case.plan.condition_reason(case.rows)
        valid = reason == "" or (reason.isascii() and reason.isalnum() and len(reason) <= 128)
        assert valid, f"{plugin.name}: condition_reason is one word of letters and digits, or empty"


def check_tiers(case: Case, random: Random) -> None:
    """Check that the order by ``tier`` ignores other rows, as preemption by tiers requires."""
    plan, name, rows = case.outcome.plan, case.plugin.name, case.rows
    if not case.outcome.tiers:
        return
    assert isinstance(plan, Tiers)
    wanted = plan.preempts_before_next_tier()
    assert isinstance(wanted, bool), f"{name}: preempts_before_next_tier returns a bool"
    tiers = plan.tier(rows)
    assert len(tiers) == len(rows), f"{name}: tier returns a value per row"
    some = sorted(random.sample(range(len(rows)), 1 + len(rows) // 2))
    ranks = [
        np.unique(values, return_inverse=True)[1].tolist()
        for values in (tiers[some], plan.tier(rows[some]))
    ]
    assert ranks[0] == ranks[1], f"{name}: the order of tiers does not depend on other rows"


def _another(case: Case, cluster: RandomCluster, row: int) -> PodInfo:
    """Return a pod to add: often a copy of the pod itself."""
    if cluster.random.random() < 0.3:
        return case.world.pod_info(cluster.a_waiting_pod())
    pod, name = case.pod.pod, f"{case.pod.name}-{row}"
    meta = msgspec.structs.replace(pod.metadata, name=name, uid=f"{pod.uid}-{row}")
    return case.world.pod_info(msgspec.structs.replace(pod, metadata=meta))


def _rejected(case: Case) -> Rows:
    if not case.outcome.filters:
        return case.rows[:0]
    rejected: Rows = case.rows[case.verdicts(case.rows) != 0]
    return rejected


def _seconds(random: Random) -> float:
    """Return a duration: a fraction of a second, some minutes or a day."""
    return float(10.0 ** random.uniform(-1, 5))
