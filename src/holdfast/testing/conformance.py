"""``check_plugin``: the conformance suite for built-in plugins and those of other authors.

The arrays that a plugin returns must be the same as if they were computed one row at a time,
without caches and in any order. The suite applies random events, removals included, to random
clusters and calls the plugin in every way in which the engine may call it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from numpy.typing import NDArray

from holdfast.scheduling.engine.decision_cache import DecisionCache
from holdfast.scheduling.engine.plugin_results import PreFilterOutcome
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.per_node import PerNodePlugin, columnar
from holdfast.scheduling.framework.plugin import Plugin, Scope
from holdfast.scheduling.framework.points import overrides
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.node_table import NodeTable
from holdfast.testing.plugin_laws import (
    Case,
    check_changes,
    check_leaving,
    check_pending,
    check_preparation,
    check_promise,
    check_rows,
    check_table,
    check_tier_rows,
    check_twin,
    check_verdicts,
    prepare_case,
)
from holdfast.testing.random_cluster import RandomCluster
from holdfast.testing.rejection_laws import (
    check_condition_reason,
    check_filter_each,
    check_retry_at,
    check_row_sets,
    check_tiers,
)
from holdfast.testing.reservation_option_laws import check_reservation_options
from holdfast.testing.trait_laws import (
    check_comparable,
    check_declaration,
    check_hints,
    check_post_filter,
    check_pre_score,
    check_reads,
    check_scores,
)

_LARGE = 68
"""With at least this many nodes, 17 rows are at most a quarter of all rows."""
PluginFactory = Callable[[], Plugin | PerNodePlugin]
Pods = Callable[[RandomCluster], Any]
_TESTED = (Plugin.pre_filter, Plugin.post_filter, Plugin.queueing_hint)
"""The methods that the suite calls, in addition to those of the plan."""


def check_plugin(
    factory: PluginFactory,
    *,
    pods: Pods = RandomCluster.a_waiting_pod,
    seed: int = 0,
    clusters: int = 4,
    steps: int = 30,
    nodes: int = 8,
) -> None:
    """Raise an AssertionError that names the rule which the plugin breaks.

    ``factory`` creates the plugin, which may be a PerNodePlugin. ``pods`` creates the pods; pass
    another function if the plugin ignores random pods. ``nodes`` is the initial number of nodes;
    with about 80 or more, the plugin is also called with changed rows as arrays.
    """
    plugin = columnar(factory())
    check_declaration(plugin)
    if not any(overrides(plugin, method) for method in _TESTED):
        return
    for number in range(clusters):
        cluster = RandomCluster(Random(seed * 1000 + number), nodes)
        cache = DecisionCache(Profile(plugin.name, (plugin,)))
        waiting = [pods(cluster) for _ in range(4)]
        for _ in range(steps):
            for _ in range(_events(cluster)):
                cluster.step()
            pod = cluster.random.choice(waiting)
            _check_step(plugin, cache, cluster, pod)
        check_hints(plugin, cluster, waiting[0])


def _events(cluster: RandomCluster) -> int:
    """Return the number of events before the next calls: usually one, sometimes very many.

    In a large cluster about a quarter of the rows change then. Between 17 and a quarter of all rows
    are passed as one array.
    """
    if cluster.random.random() < 0.8:
        return 1
    nodes = len(cluster.nodes)
    if nodes < _LARGE:
        return cluster.random.randrange(nodes)
    return cluster.random.randrange(nodes // 2, nodes * 3 // 4)


def _check_step(plugin: Plugin, cache: DecisionCache, cluster: RandomCluster, pod: Any) -> None:
    case = prepare_case(plugin, cluster.world, pod)
    _check_incremental(case, cache, cluster, pod)
    check_reads(case)
    before = _fingerprint(cluster.world.nodes)
    if not case.outcome.skip and case.outcome.reject is None and len(case.rows):
        _check_results(case, cluster)
    check_post_filter(case)
    assert _fingerprint(cluster.world.nodes) == before, f"{plugin.name}: inputs unchanged"


def _check_results(case: Case, cluster: RandomCluster) -> None:
    check_comparable(case)
    if case.outcome.filters:
        check_rows(case, case.verdicts, cluster.random, "filter")
        check_verdicts(case)
        check_changes(case, cluster)
        check_leaving(case, cluster.random)
        check_retry_at(case, cluster.random)
        check_row_sets(case, cluster)
        check_filter_each(case)
        check_condition_reason(case)
    if case.outcome.scores:
        check_rows(case, case.scores, cluster.random, "score")
        check_scores(case, cluster.random)
        check_table(case)
    check_pre_score(case)
    check_tiers(case, cluster.random)
    check_tier_rows(case, case.outcome)
    check_twin(case)
    check_preparation(case)
    check_promise(case, cluster.random)
    check_pending(case, cluster)
    check_reservation_options(case, cluster)


def _check_incremental(case: Case, cache: DecisionCache, cluster: RandomCluster, pod: Any) -> None:
    """Check that results that are cached and updated by events equal those in a new world."""
    plugin, world = case.plugin, cluster.world
    if plugin.traits.scope is Scope.CLUSTER:
        return
    cached = cache.pre_filter(plugin, case.pod, View(world, case.pod, 0.0))
    computed = prepare_case(plugin, cluster.rebuilt(shuffled=True), pod)
    law = f"{plugin.name}: incremental equals full"
    assert (cached.skip, cached.reject) == (computed.outcome.skip, computed.outcome.reject), law
    if cached.skip or cached.reject is not None:
        return
    check_tier_rows(case, cached)
    if cached.row_results is not None:
        cached.row_results.refresh()
    if cached.filters:
        verdicts = _cached_verdicts(cached, world.nodes)
        assert verdicts == _by_name(computed.world.nodes, computed.verdicts(computed.rows)), law
    if cached.scores:
        scores = _cached_scores(cached, world.nodes)
        assert scores == _by_name(computed.world.nodes, computed.scores(computed.rows)), law


def _cached_verdicts(cached: PreFilterOutcome, nodes: NodeTable) -> dict[str, float]:
    if cached.row_results is not None and cached.row_results.verdicts is not None:
        return _by_name(nodes, cached.row_results.verdicts[nodes.rows])
    return _by_name(nodes, cached.plan.filter(nodes.rows))


def _cached_scores(cached: PreFilterOutcome, nodes: NodeTable) -> dict[str, float]:
    if cached.row_results is not None and cached.row_results.raw is not None:
        return _by_name(nodes, cached.row_results.raw[nodes.rows])
    return _by_name(nodes, cached.plan.score(nodes.rows))


def _by_name(nodes: NodeTable, values: NDArray[Any]) -> dict[str, float]:
    return {nodes.names[row]: float(values[i]) for i, row in enumerate(nodes.rows.tolist())}


def _fingerprint(nodes: NodeTable) -> tuple[Any, ...]:
    """Return the contents of all arrays that a plugin must not modify."""
    amounts = nodes.amounts
    arrays = (
        amounts.allocatable, amounts.requested, amounts.free, amounts.divisor,
        amounts.nonzero, amounts.free_times_100, nodes.alive, nodes.unschedulable, nodes.taint_set,
    )  # fmt: skip
    return (nodes.seq, nodes.node_journal.seq, *(array.tobytes() for array in arrays))
