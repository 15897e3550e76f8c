"""Why a pod goes where it goes, or nowhere: the same deciding, told in full.

The answer is plain data in the shape that ``holdfast explain`` prints. Here, and only here, nodes
are walked one by one: somebody wants to read about each of them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from holdfast.api.pod import Pod
from holdfast.columns.pod_info import PodInfo
from holdfast.engine.decision import Feasible, feasible, run_pre_enqueue_plugins
from holdfast.engine.post_filter import run_post_filter_plugins
from holdfast.engine.profile import Profile
from holdfast.engine.rejections import reject_by_row
from holdfast.engine.scoring import InvalidScore, Score, best_tier, score_rows, total
from holdfast.framework.plugin import Code, PostFilterResult, Reject, Rows
from holdfast.framework.rejection import Rejection
from holdfast.framework.world import World

Json = dict[str, Any]


def explain(
    profile: Profile,
    pod: Pod,
    world: World,
    now: float,
    *,
    preempt: bool = False,
    is_reserve_pod: bool = False,
) -> Json:
    """Tell what the profile makes of a pod in this world, node by node.

    A pod that is on a node already is explained as if it were not. ``is_reserve_pod``: it is no
    real pod but stands for a reservation.
    """
    pod_info, world = _unplaced(pod, world, is_reserve_pod=is_reserve_pod)
    told: Json = {
        "pod": pod_info.key, "schedulable": False, "message": "", "preFilter": None, "nodes": [],
        "best": [], "preemption": None,
    }  # fmt: skip
    gate = run_pre_enqueue_plugins(profile, pod_info, world, now)
    if gate is not None:
        told["preEnqueue"] = _status(*gate)
        told["message"] = ", ".join(gate[1].reasons)
        return told
    found = feasible(profile, pod_info, world, now)
    if isinstance(found, Rejection):
        _tell_rejection(told, profile, found, world, now, preempt=preempt)
        return told
    try:
        _tell_scores(told, profile, found)
    except InvalidScore as wrong:
        told["error"] = told["message"] = str(wrong)
    return told


def _unplaced(pod: Pod, world: World, *, is_reserve_pod: bool) -> tuple[PodInfo, World]:
    """The pod as it would be without a node, and a world it does not stand in."""
    uid = pod.uid or pod.key
    if world.nodes.pod(uid) is not None:
        world = world.fork()
        world.delete(pod)
    if pod.spec.node_name:
        pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    return world.pod_info(pod, is_reserve_pod=is_reserve_pod), world


def _status(plugin: str, reject: Reject) -> Json:
    return {"plugin": plugin, "code": reject.code.upstream_name, "reasons": list(reject.reasons)}


def _tell_rejection(
    told: Json,
    profile: Profile,
    rejection: Rejection,
    world: World,
    now: float,
    *,
    preempt: bool,
) -> None:
    told["message"] = rejection.message()
    if rejection.error:
        told["error"] = rejection.error
        return
    if rejection.pre_filter_reject is not None:
        told["preFilter"] = _status(*rejection.pre_filter_reject)
    told["nodes"] = [_rejected(rejection, int(row)) for row in world.nodes.rows]
    if preempt:
        result = run_post_filter_plugins(profile, rejection, world, now)
        told["preemption"] = result and _preemption(result)


def _rejected(rejection: Rejection, row: int) -> Json:
    return {
        "name": rejection.view.nodes.names[row],
        "feasible": False,
        "plugin": rejection.plugin_at(row) or None,
        "code": Code(int(rejection.codes[row])).upstream_name,
        "reasons": list(rejection.reasons(row)),
        "scores": {},
        "total": None,
    }


def _preemption(result: PostFilterResult) -> Json:
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


def _tell_scores(told: Json, profile: Profile, found: Feasible) -> None:
    """Tell the scores of every feasible row, and which rows win.

    Only rows of the lowest tier are ranked, among themselves. The others cannot win; they are
    told what they would get among all.
    """
    nodes, feasible_rows = found.view.nodes, found.rows
    rows = best_tier(found.outcomes, feasible_rows)
    told_of: dict[int, Json] = {}
    if len(rows) < len(feasible_rows):
        told_of = _scores(feasible_rows, score_rows(profile, found.outcomes, feasible_rows))
    ranked = score_rows(profile, found.outcomes, rows)
    told_of |= _scores(rows, ranked)
    others = reject_by_row(found.view, found.outcomes, found.statuses)
    told["schedulable"] = True
    told["nodes"] = [
        _PASSED | {"name": nodes.names[row], **told_of[row]}
        if row in told_of
        else _rejected(others, row)
        for row in nodes.rows.tolist()
    ]
    sums = total(ranked, len(rows))
    best = (
        rows[sums == sums.max()].tolist()
        if found.preselected_row is None
        else [found.preselected_row]
    )
    told["best"] = sorted(nodes.names[row] for row in best)


def _scores(rows: Rows, scores: list[Score]) -> dict[int, Json]:
    """Per row, what each plugin gives it and what that adds up to; whole numbers, as upstream."""
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


_PASSED: Json = {
    "name": "", "feasible": True, "plugin": None, "code": Code.PASS.upstream_name, "reasons": [],
}  # fmt: skip
