"""Explain a decision: the result of every plugin for every node.

Returns plain data in the shape that ``holdfast explain`` prints. This is the only code that loops
over nodes, because each of them is printed.
"""

from __future__ import annotations

import msgspec
import numpy as np

from holdfast.api.decode import JsonObject
from holdfast.api.pod import Pod
from holdfast.api.timestamps import rfc3339
from holdfast.scheduling.engine.decision import all_tiers, feasible, run_pre_enqueue_plugins
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.post_filter import (
    preempt_in_better_tiers,
    run_post_filter_plugins_by_tier,
)
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.engine.rejections import reject_by_row
from holdfast.scheduling.engine.scoring import (
    InvalidScore,
    Score,
    best_tier,
    run_pre_score_plugins,
    score_rows,
    total,
)
from holdfast.scheduling.framework.plugin import Code, NodeFilter, PostFilterResult, Reject, Rows
from holdfast.scheduling.framework.points import overrides
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.devices.claims import is_bound_with


def explain(
    profile: Profile,
    pod: Pod,
    world: World,
    now: float,
    *,
    preempt: bool = False,
    is_reserve_pod: bool = False,
) -> JsonObject:
    """Decide on a pod and return the results of the plugins, node by node.

    A pod that is bound already is treated as if it were not. ``is_reserve_pod``: the pod is the
    reserve pod of a reservation, not an API object.
    """
    pod_info, world = _unplaced(pod, world, is_reserve_pod=is_reserve_pod)
    explained: JsonObject = {
        "pod": pod_info.key, "schedulable": False, "message": "", "preFilter": None, "nodes": [],
        "best": [], "preemption": None,
    }  # fmt: skip
    view = profile.view(pod_info, world, now)
    gate = run_pre_enqueue_plugins(profile, view)
    if gate is not None:
        explained["preEnqueue"] = _status(*gate)
        explained["message"] = ", ".join(gate[1].reasons)
        return explained
    found = feasible(profile, view)
    if isinstance(found, Rejection):
        _add_rejection(explained, profile, found, world, now, preempt=preempt)
        return explained
    try:
        _add_scores(explained, profile, found)
    except InvalidScore as wrong:
        explained["error"] = explained["message"] = str(wrong)
    preemption = preempt_in_better_tiers(profile, found, now)
    if preemption is not None:
        # Part of the decision, whether or not preemption is to be shown.
        explained |= {"schedulable": False, "best": [], "message": preemption.message()}
        explained["preemption"] = _preemption(preemption.result)
    return explained


def _unplaced(pod: Pod, world: World, *, is_reserve_pod: bool) -> tuple[PodInfo, World]:
    """Return the pod without its node, and a world without the pod and what binding created.

    Binding may be under way: then it has created a claim and waits until the devices are prepared.
    """
    uid = pod.uid or pod.key
    claim = world.devices.claims.extended_claim_of(pod)
    if claim is not None and not (pod.spec.node_name or is_bound_with(pod, claim)):
        claim = None  # an earlier attempt left it: it has to be deleted first
    if claim is not None or world.nodes.pod(uid) is not None:
        world = world.fork()
        world.delete(pod)
        if claim is not None:
            world.delete(claim)
    if pod.spec.node_name:
        pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    return world.pod_info(pod, is_reserve_pod=is_reserve_pod), world


def _status(plugin: str, reject: Reject) -> JsonObject:
    return {"plugin": plugin, "code": reject.code.upstream_name, "reasons": list(reject.reasons)}


def _add_rejection(
    explained: JsonObject,
    profile: Profile,
    rejection: Rejection,
    world: World,
    now: float,
    *,
    preempt: bool,
) -> None:
    explained["message"] = rejection.message()
    if rejection.error:
        explained["error"] = rejection.error
        _add_details(explained, rejection)
        return
    if rejection.pre_filter_reject is not None:
        explained["preFilter"] = _status(*rejection.pre_filter_reject)
    explained["nodes"] = [_rejected(rejection, int(row)) for row in world.nodes.rows]
    _add_details(explained, rejection)
    if (time := rejection.retry_at) is not None:
        explained["retryAt"] = rfc3339(time)
    if preempt:
        result = run_post_filter_plugins_by_tier(profile, rejection, now)
        explained["preemption"] = result and _preemption(result)


def _rejected(rejection: Rejection, row: int) -> JsonObject:
    return {
        "name": rejection.view.nodes.names[row],
        "feasible": False,
        "plugin": rejection.plugin_at(row) or None,
        "code": Code(int(rejection.codes[row])).upstream_name,
        "reasons": list(rejection.reasons(row)),
        "scores": {},
        "total": None,
    }


def _add_details(explained: JsonObject, rejection: Rejection) -> None:
    """Add what plugins say in detail about the rows that they reject, by the plugin's name."""
    rows, details = rejection.view.nodes.rows, {}
    for plugin, plan in rejection.filters:
        if not overrides(plan, NodeFilter.explain):
            continue
        if rejection.error:  # then the rows have no reasons
            rejected = rows[plan.filter(rows) != 0]
        else:
            rejected = rows[[rejection.plugin_at(int(row)) == plugin.name for row in rows]]
        details[plugin.name] = dict(plan.explain(rejected) or {})
    if details:
        explained["details"] = details


def _preemption(result: PostFilterResult) -> JsonObject:
    return {
        "nominatedNode": result.nominated_node or None,
        "victims": sorted(pod.key for pod in result.victims),
        "tied": sorted(result.tied_nodes),
        "candidates": [
            {
                "node": candidate.node,
                "victims": sorted(pod.key for pod in candidate.victims),
                "pdbViolations": candidate.violations,
            }
            for candidate in result.candidates
        ],
        "message": result.message,
    }


def _add_scores(explained: JsonObject, profile: Profile, found: Feasible) -> None:
    """Add the scores of every feasible row, and the best rows.

    Only rows of the lowest tier are compared. The other rows get the scores that they would have
    if all rows were compared.
    """
    found = all_tiers(found)
    nodes, feasible_rows = found.view.nodes, found.rows
    run_pre_score_plugins(found.outcomes, feasible_rows)
    rows = best_tier(found.outcomes, feasible_rows)
    scores_of: dict[int, JsonObject] = {}
    if len(rows) < len(feasible_rows):
        scores_of = _scores(feasible_rows, score_rows(profile, found.outcomes, feasible_rows))
    ranked = score_rows(profile, found.outcomes, rows)
    scores_of |= _scores(rows, ranked)
    others = reject_by_row(found.view, found.outcomes, found.statuses)
    explained["schedulable"] = True
    _add_details(explained, others)
    explained["nodes"] = [
        _PASSED | {"name": nodes.names[row], **scores_of[row]}
        if row in scores_of
        else _rejected(others, row)
        for row in nodes.rows.tolist()
    ]
    sums = total(ranked, len(rows))
    best = (
        rows[sums == sums.max()].tolist()
        if found.preselected_row is None
        else [found.preselected_row]
    )
    explained["best"] = sorted(nodes.names[row] for row in best)


def _scores(rows: Rows, scores: list[Score]) -> dict[int, JsonObject]:
    """Return per row the scores of each plugin and their sum, as whole numbers like upstream."""
    columns = [
        (
            score.plugin,
            score.raw.astype(np.int64).tolist(),
            score.normalized.astype(np.int64).tolist(),
            score.weighted.astype(np.int64).tolist(),
        )
        for score in scores
    ]
    sums = total(scores, len(rows)).astype(np.int64).tolist()
    return {
        row: {
            "scores": {
                plugin: {"raw": raw[at], "normalized": normalized[at], "weighted": weighted[at]}
                for plugin, raw, normalized, weighted in columns
            },
            "total": sums[at],
        }
        for at, row in enumerate(rows.tolist())
    }


_PASSED: JsonObject = {
    "name": "", "feasible": True, "plugin": None, "code": Code.PASS.upstream_name, "reasons": [],
}  # fmt: skip
