"""``check_plugin``: the suite every plugin passes, ours and yours.

A plugin that answers with arrays is right only if the arrays could have been worked out one row at
a time, from scratch, in any order. The suite lets random things happen to a random cluster, things
being removed among them, and asks the plugin in every way the runner may ask it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from numpy.typing import NDArray

from holdfast.columns.node_table import NodeTable
from holdfast.engine.decision_cache import DecisionCache
from holdfast.engine.plugin_results import PreFilterOutcome
from holdfast.engine.plugin_use import CyclePlugin
from holdfast.engine.profile import Profile
from holdfast.framework.per_node import PerNodePlugin, columnar
from holdfast.framework.plugin import (
    NO_CHANGE,
    FilterPlugin,
    Plugin,
    PostFilterPlugin,
    PreFilterPlugin,
    QueueingHintPlugin,
    Scope,
    ScorePlugin,
    implements,
)
from holdfast.framework.view import View
from holdfast.testing.plugin_laws import (
    Case,
    check_changes,
    check_leaving,
    check_promise,
    check_rows,
    check_table,
    check_twin,
    check_verdicts,
    prepare_case,
)
from holdfast.testing.random_cluster import RandomCluster
from holdfast.testing.trait_laws import (
    check_comparable,
    check_declaration,
    check_hints,
    check_post_filter,
    check_reads,
    check_scores,
)

_LARGE = 68
"""From this many nodes on, 17 rows are at most a quarter of all."""
PluginFactory = Callable[[], Plugin | PerNodePlugin]
Pods = Callable[[RandomCluster], Any]
_ASKED: tuple[type[Plugin], ...] = (
    PreFilterPlugin,
    FilterPlugin,
    ScorePlugin,
    PostFilterPlugin,
    QueueingHintPlugin,
)
"""The extension points of which there are laws."""


def check_plugin(
    factory: PluginFactory,
    *,
    pods: Pods = RandomCluster.a_waiting_pod,
    seed: int = 0,
    clusters: int = 4,
    steps: int = 30,
    nodes: int = 8,
) -> None:
    """Raise AssertionError naming the law that the plugin breaks.

    ``factory`` makes the plugin, in columns or one for a node at a time. ``pods`` makes the pods it
    is asked about; give your own if random ones never concern it. ``nodes`` is how many nodes a
    cluster begins with: from about 80 on, rows that changed are also asked about as arrays.
    """
    plugin = columnar(factory())
    check_declaration(plugin)
    if not any(implements(plugin, point) for point in _ASKED):
        return
    for number in range(clusters):
        cluster = RandomCluster(Random(seed * 1000 + number), nodes)
        memory = DecisionCache(Profile(plugin.name, (plugin,)))
        waiting = [pods(cluster) for _ in range(4)]
        for _ in range(steps):
            for _ in range(_events(cluster)):
                cluster.step()
            pod = cluster.random.choice(waiting)
            _check_step(plugin, memory, cluster, pod)
        check_hints(plugin, cluster, waiting[0])


def _events(cluster: RandomCluster) -> int:
    """How many events happen before the next question: mostly one, sometimes very many.

    In a large cluster about a quarter of the rows change then; if they are at most a quarter and
    more than 16, they are asked about as one array.
    """
    if cluster.random.random() < 0.8:
        return 1
    nodes = len(cluster.nodes)
    if nodes < _LARGE:
        return cluster.random.randrange(nodes)
    return cluster.random.randrange(nodes // 2, nodes * 3 // 4)


def _check_step(plugin: Plugin, memory: DecisionCache, cluster: RandomCluster, pod: Any) -> None:
    case = prepare_case(plugin, cluster.world, pod)
    _check_incremental(case, memory, cluster, pod)
    check_reads(case)
    before = _fingerprint(cluster.world.nodes)
    if not case.outcome.skip and case.outcome.reject is None and len(case.rows):
        _check_answers(case, cluster)
    check_post_filter(case)
    assert _fingerprint(cluster.world.nodes) == before, f"{plugin.name}: inputs unchanged"


def _check_answers(case: Case, cluster: RandomCluster) -> None:
    check_comparable(case)
    if case.outcome.filters:
        check_rows(case, case.verdicts, cluster.random, "filter")
        check_verdicts(case)
        check_changes(case, cluster)
        check_leaving(case, cluster.random)
    if case.outcome.scores:
        check_rows(case, case.scores, cluster.random, "score")
        check_scores(case, cluster.random)
        check_table(case)
    check_twin(case)
    check_promise(case, cluster.random)


def _check_incremental(case: Case, memory: DecisionCache, cluster: RandomCluster, pod: Any) -> None:
    """What is kept through events equals what a world built at once says, by node name."""
    plugin, world = case.plugin, cluster.world
    if plugin.traits.scope is Scope.CLUSTER:
        return
    kept = memory.pre_filter(plugin, case.pod, View(world, case.pod, 0.0))
    anew = prepare_case(plugin, cluster.rebuilt(shuffled=True), pod)
    law = f"{plugin.name}: incremental equals full"
    assert (kept.skip, kept.reject) == (anew.outcome.skip, anew.outcome.reject), law
    if kept.skip or kept.reject is not None:
        return
    if kept.row_results is not None:
        kept.row_results.refresh()
    if kept.filters:
        verdicts = _kept_verdicts(plugin, kept, world.nodes)
        assert verdicts == _by_name(anew.world.nodes, anew.verdicts(anew.rows)), law
    if kept.scores:
        scores = _kept_scores(plugin, kept, world.nodes)
        assert scores == _by_name(anew.world.nodes, anew.scores(anew.rows)), law


def _kept_verdicts(
    plugin: CyclePlugin, kept: PreFilterOutcome, nodes: NodeTable
) -> dict[str, float]:
    if kept.row_results is not None and kept.row_results.verdicts is not None:
        return _by_name(nodes, kept.row_results.verdicts[nodes.rows])
    return _by_name(nodes, plugin.filter(kept.state, nodes.rows, NO_CHANGE))


def _kept_scores(plugin: CyclePlugin, kept: PreFilterOutcome, nodes: NodeTable) -> dict[str, float]:
    if kept.row_results is not None and kept.row_results.raw is not None:
        return _by_name(nodes, kept.row_results.raw[nodes.rows])
    return _by_name(nodes, plugin.score(kept.state, nodes.rows))


def _by_name(nodes: NodeTable, values: NDArray[Any]) -> dict[str, float]:
    return {nodes.names[row]: float(values[i]) for i, row in enumerate(nodes.rows.tolist())}


def _fingerprint(nodes: NodeTable) -> tuple[Any, ...]:
    """Everything a careless plugin could have written to."""
    amounts = nodes.amounts
    arrays = (
        amounts.allocatable, amounts.requested, amounts.free, amounts.divisor,
        amounts.nonzero, amounts.free_times_100, nodes.alive, nodes.unschedulable, nodes.taint_set,
    )  # fmt: skip
    return (nodes.seq, nodes.node_journal.seq, *(array.tobytes() for array in arrays))
