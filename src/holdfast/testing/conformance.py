"""``check_plugin``: the suite every plugin passes, ours and yours.

A plugin that answers with arrays is right only if the arrays could have been worked out one row at
a time, from scratch, in any order. The suite lets random things happen to a random cluster, things
being removed among them, and asks the plugin in every way the runner may ask it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.pod import Resources
from holdfast.capacity.held_room import offer_for
from holdfast.columns.interner import PODS
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts
from holdfast.engine.memory import Memory
from holdfast.engine.plugin_use import Deciding, PluginUse
from holdfast.engine.prepared import Prepared, ask
from holdfast.engine.profile import Profile
from holdfast.framework.per_node import PerNodePlugin, columnar
from holdfast.framework.plugin import (
    NONE,
    Change,
    ClusterEvent,
    Code,
    Filters,
    GroupsReasons,
    Hints,
    JudgesOne,
    Limits,
    LimitsPods,
    Needs,
    NeedsRoom,
    Normalizes,
    Plugin,
    Prepares,
    RestsOnPods,
    Rows,
    ScalarTwin,
    Scales,
    Scope,
    Tabulates,
    Tallies,
    Traits,
    implements,
)
from holdfast.framework.traits import misplaced
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.testing.builders import a_reservation, typed
from holdfast.testing.random_cluster import RandomCluster

Factory = Callable[[], Plugin | PerNodePlugin]
Pods = Callable[[RandomCluster], Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One plugin prepared for one pod in one world."""

    plugin: Deciding
    pod: PodFacts
    world: World
    prepared: Prepared

    @property
    def rows(self) -> Rows:
        """Every row that is a node, ascending."""
        return self.world.nodes.rows

    def verdicts(self, rows: Any, change: Change = NONE) -> NDArray[np.int8]:
        """What filter answers."""
        found: NDArray[np.int8] = self.plugin.filter(self.prepared.state, rows, change)
        return found

    def scores(self, rows: Any) -> NDArray[np.float64]:
        """What score answers."""
        found: NDArray[np.float64] = self.plugin.score(self.prepared.state, rows)
        return found


def check_plugin(
    factory: Factory,
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
    assert isinstance(plugin.name, str) and plugin.name, "a plugin has a name"
    assert isinstance(plugin.traits, Traits), f"{plugin.name}: traits is a Traits value"
    stray = ", ".join(misplaced(plugin))
    assert not stray, f"{plugin.name}: {stray}: no attributes of a plugin but fields of its traits"
    if not (implements(plugin, Prepares) or implements(plugin, Filters)):
        return
    for number in range(clusters):
        cluster = RandomCluster(Random(seed * 1000 + number), nodes)
        memory = Memory(Profile(plugin.name, (plugin,)))
        waiting = [pods(cluster) for _ in range(4)]
        for _ in range(steps):
            for _ in range(_events(cluster)):
                cluster.step()
            pod = cluster.random.choice(waiting)
            _check_step(plugin, memory, cluster, pod)
        _check_hints(plugin, cluster, waiting[0])


def _events(cluster: RandomCluster) -> int:
    """How many events happen before the next question: mostly one, sometimes very many."""
    return 1 if cluster.random.random() < 0.8 else cluster.random.randrange(len(cluster.nodes))


def _check_step(plugin: Plugin, memory: Memory, cluster: RandomCluster, pod: Any) -> None:
    case = prepare(plugin, cluster.world, pod)
    _check_incremental(case, memory, cluster, pod)
    _check_amounts(case)
    if case.prepared.skip or case.prepared.reject is not None or not len(case.rows):
        return
    before = _fingerprint(cluster.world.nodes)
    if case.prepared.filters:
        _check_rows(case, case.verdicts, cluster.random, "filter")
        _check_verdicts(case)
        _check_changes(case, cluster)
        _check_leaving(case, cluster.random)
    if case.prepared.scores:
        _check_rows(case, case.scores, cluster.random, "score")
        _check_scaling(case)
        _check_table(case)
    _check_twin(case)
    assert _fingerprint(cluster.world.nodes) == before, f"{plugin.name}: inputs unchanged"


def _check_amounts(case: Case) -> None:
    """What a plugin reads without looking at amounts is the same for other amounts."""
    if not case.plugin.traits.ignores_amounts:
        return
    spec, resources = case.pod.pod.spec, Resources(requests={"cpu": "123m", "memory": "45Mi"})
    containers = tuple(msgspec.structs.replace(c, resources=resources) for c in spec.containers)
    other = case.world.facts(
        msgspec.structs.replace(
            case.pod.pod, spec=msgspec.structs.replace(spec, containers=containers)
        )
    )
    read = [case.plugin.reads(f, View(case.world, f, 0.0)) for f in (case.pod, other)]
    assert read[0] == read[1], f"{case.plugin.name}: reads ignores amounts"


def _check_hints(plugin: Plugin, cluster: RandomCluster, pod: Any) -> None:
    """A hint is asked about every event there is and answers yes or no."""
    if not implements(plugin, Hints):
        return
    facts = cluster.world.facts(pod)
    view = View(cluster.world, facts, 0.0)
    node, standing = next(iter(cluster.nodes.values())), next(iter(cluster.pods.values()), pod)
    other = typed(a_reservation("conformance"))
    events = [
        ClusterEvent("UnschedulablePod", "UpdatePodToleration", pod, pod),
        ClusterEvent("Unheard-of", "Delete", other, None),
    ]
    for resource, obj in (("Node", node), ("AssignedPod", standing), ("Reservation", other)):
        events.append(ClusterEvent(resource, "Add", None, obj))
        events.append(ClusterEvent(resource, "Update", obj, obj))
        events.append(ClusterEvent(resource, "Delete", obj, None))
    for event in events:
        answer = plugin.hint(event, facts, view)
        assert isinstance(answer, bool), f"{plugin.name}: hint answers {event} with yes or no"


def prepare(plugin: Plugin, world: World, pod: Any) -> Case:
    """Prepare a plugin for a pod, remembering nothing."""
    facts = world.facts(pod)
    use = PluginUse(plugin)
    return Case(use.plugin, facts, world, ask(use, facts, View(world, facts, 0.0), ()))


def _check_rows(case: Case, answer: Callable[[Any], Any], random: Random, point: str) -> None:
    """A row's answer depends neither on the other rows asked about nor on their order."""
    name, rows = case.plugin.name, case.rows
    whole = answer(rows.copy())
    assert len(whole) == len(rows), f"{name}: {point} answers for each row"
    order = list(range(len(rows)))
    random.shuffle(order)
    assert (answer(rows[order]) == whole[order]).all(), f"{name}: {point} row-order invariance"
    some = sorted(order[: max(1, len(order) // 2)])
    asked = rows[some]
    assert (answer(asked) == whole[some]).all(), f"{name}: {point} subset invariance"
    assert (asked == rows[some]).all(), f"{name}: {point} left its rows unchanged"
    if case.plugin.traits.sliced:
        sliced = answer(slice(0, case.world.nodes.size))
        assert (sliced[rows] == whole).all(), f"{name}: {point} slice equals rows"


def _check_verdicts(case: Case) -> None:
    """Verdicts are codes, and every rejection has words, which the tally counts."""
    name, rows = case.plugin.name, case.rows
    verdicts = case.verdicts(rows)
    assert verdicts.dtype == np.int8, f"{name}: verdicts are int8"
    allowed = {0, 1, 2} | (set() if case.plugin.traits.scope.kept else {int(Code.ERROR)})
    assert set(verdicts.tolist()) <= allowed, f"{name}: verdicts are codes"
    rejected = rows[verdicts != 0]
    words = Counter(
        word for row in rejected for word in case.plugin.reasons(case.prepared.state, int(row))
    )
    assert bool(words) == bool(len(rejected)), f"{name}: a rejection has reasons"
    plugin, state = case.plugin, case.prepared.state
    if implements(plugin, Tallies) and len(rejected):
        tally = {w: n for w, n in plugin.tally(state, rejected).items() if n}
        assert tally == words, f"{name}: tally equals reasons"
    if implements(plugin, GroupsReasons) and len(rejected):
        said: dict[int, tuple[str, ...]] = {}
        for row, group in zip(rejected, plugin.groups(state, rejected).tolist(), strict=True):
            reasons = case.plugin.reasons(state, int(row))
            assert said.setdefault(group, reasons) == reasons, f"{name}: groups give one reason"


def _check_changes(case: Case, cluster: RandomCluster) -> None:
    """A hypothesis answers what would be if it came true, and then leaves no trace."""
    name, nodes, rows = case.plugin.name, case.world.nodes, case.rows
    plain = case.verdicts(rows)
    row = int(cluster.random.choice(rows.tolist()))
    more = case.world.facts(cluster.a_waiting_pod())
    less = cluster.random.choice([*nodes.pods_on(row).values(), None])
    removed = {row: (less,)} if less is not None else {}
    change = Change(added={row: (more,)}, removed=removed)
    asked = case.verdicts(rows, change)
    if implements(case.plugin, JudgesOne):
        single = [case.plugin.verdict(case.prepared.state, one, change) for one in rows.tolist()]
        assert asked.tolist() == single, f"{name}: one row under a change equals many"
    assert (case.verdicts(rows) == plain).all(), f"{name}: change then undo is identity"
    drawn_on = offer_for(case.world.offers, row, more)
    if drawn_on is not None and case.world.offers.leaving(drawn_on):
        return  # it would take the place of who leaves, and there is no saying when
    if less is not None and less.terminating:
        return  # upstream's spread counts its leaving, and does not count it while it stands
    fork = case.world.fork()
    if less is not None:
        fork.delete(less.pod)
    fork.nodes.add_pod(more, nodes.names[row])
    if drawn_on is not None:
        fork.offers.assign(more.uid, {drawn_on.uid: {**dict(more.request), PODS: 1}})
    real = prepare(case.plugin, fork, case.pod.pod)
    if real.prepared.filters:
        assert (real.verdicts(rows) == asked).all(), f"{name}: a change answers what would be"


def _check_leaving(case: Case, random: Random) -> None:
    """What a plugin says rests on pods does, or may; where it says no, nobody's leaving matters."""
    plugin, state, nodes = case.plugin, case.prepared.state, case.world.nodes
    row = int(random.choice(case.rows.tolist()))
    there = [pod for pod in nodes.pods_on(row).values() if not pod.stands_in]
    gone = [pod for pod in there if random.random() < 0.5]
    asked = np.array([row], np.intp)
    verdict = int(case.verdicts(asked, Change(removed={row: gone}))[0])
    rests = False
    if implements(plugin, RestsOnPods):
        found = plugin.rests_on_pods(state)
        rests = found is not None and bool(found[row])
        if not rests and not implements(plugin, NeedsRoom):
            plain = int(case.verdicts(asked)[0])
            assert verdict == plain, f"{plugin.name}: a row that rests on no pods keeps its verdict"
    if implements(plugin, LimitsPods):
        _check_limits(case, plugin.limits(state), row, gone, verdict)
    if implements(plugin, NeedsRoom):
        needs: Needs = plugin.needs(state)
        if needs.apart is not None and needs.apart[row]:
            return
        enough = _room_left(case, row, gone, needs)
        law = f"{plugin.name}: a row passes where there is room"
        assert enough or verdict, law
        assert rests or enough is (verdict == 0), law


def _check_limits(case: Case, limits: Limits, row: int, gone: list[PodFacts], verdict: int) -> None:
    """A row passes exactly if no limit is exceeded once some have left."""
    if limits.apart is None or not limits.apart[row]:
        left = [limit.left[row] + sum(map(limit.counts, gone)) for limit in limits.limits]
        within = bool(min(left, default=0) >= 0)
        assert within is (verdict == 0), f"{case.plugin.name}: a row passes within its limits"


def _room_left(case: Case, row: int, gone: list[PodFacts], needs: Needs) -> bool:
    """Tell whether what a plugin needs would be free on a row without some pods."""
    amounts = case.world.nodes.amounts
    room, slots = Change(removed={row: gone}).freed(row)
    enough = int(amounts.free[PODS][row]) + slots >= 1
    for resource, amount in needs.amounts:
        waived = resource in needs.waived and not amounts.allocatable[resource][row]
        free = int(amounts.free[resource][row]) + room.get(resource, 0)
        enough = enough and (waived or free >= amount)
    return enough


def _check_scaling(case: Case) -> None:
    """Normalized scores are in 0..100, and an array is scaled cell by cell."""
    name, plugin, state = case.plugin.name, case.plugin, case.prepared.state
    raw = case.scores(case.rows)
    assert (raw == np.trunc(raw)).all(), f"{name}: raw scores are whole numbers"
    final = raw
    if implements(plugin, Normalizes):
        final = plugin.normalize(state, case.rows, raw.copy())
    elif implements(plugin, Scales):
        low, high = float(raw.min()), float(raw.max())
        final = plugin.scale(state, raw.copy(), low, high)
        single = [plugin.scale(state, float(one), low, high) for one in raw]
        assert (final == single).all(), f"{name}: scale works cell by cell"
    assert final.min() >= 0 and final.max() <= 100, f"{name}: scores end in 0..100"


def _check_table(case: Case) -> None:
    """A table of scores says the same as scoring row by row and normalizing."""
    plugin, state = case.plugin, case.prepared.state
    if not implements(plugin, Tabulates):
        return
    assert case.plugin.pre_score(state, case.rows) is None
    found = plugin.tabulate(state, case.rows)
    if found is not None:
        final = case.plugin.normalize(state, case.rows, case.scores(case.rows))
        assert (found[1][found[0]] == final).all(), f"{plugin.name}: a table says what rows say"


def _check_twin(case: Case) -> None:
    """The scalar twin gives the same verdict and raw score as the arrays."""
    plugin, prepared = case.plugin, case.prepared
    if not implements(plugin, ScalarTwin):
        return
    verdicts = case.verdicts(case.rows) if prepared.filters else None
    scores = case.scores(case.rows) if prepared.scores else None
    for i, row in enumerate(case.rows.tolist()):
        verdict, score = plugin.row(prepared.state, row)
        same = (verdicts is None or verdict == verdicts[i]) and (
            scores is None or score == scores[i]
        )
        assert same, f"{plugin.name}: scalar twin equals vector"


def _check_incremental(case: Case, memory: Memory, cluster: RandomCluster, pod: Any) -> None:
    """What is kept through events equals what a world built at once says, by node name."""
    plugin, world = case.plugin, cluster.world
    if plugin.traits.scope is Scope.CLUSTER:
        return
    kept = memory.prepare(plugin, case.pod, View(world, case.pod, 0.0))
    anew = prepare(plugin, cluster.rebuilt(shuffled=True), pod)
    law = f"{plugin.name}: incremental equals full"
    assert (kept.skip, kept.reject) == (anew.prepared.skip, anew.prepared.reject), law
    if kept.skip or kept.reject is not None:
        return
    if kept.answers is not None:
        kept.answers.refresh()
    if kept.filters:
        verdicts = _kept_verdicts(plugin, kept, world.nodes)
        assert verdicts == _by_name(anew.world.nodes, anew.verdicts(anew.rows)), law
    if kept.scores:
        scores = _kept_scores(plugin, kept, world.nodes)
        assert scores == _by_name(anew.world.nodes, anew.scores(anew.rows)), law


def _kept_verdicts(plugin: Deciding, kept: Prepared, nodes: Picture) -> dict[str, float]:
    if kept.answers is not None and kept.answers.verdicts is not None:
        return _by_name(nodes, kept.answers.verdicts[nodes.rows])
    return _by_name(nodes, plugin.filter(kept.state, nodes.rows, NONE))


def _kept_scores(plugin: Deciding, kept: Prepared, nodes: Picture) -> dict[str, float]:
    if kept.answers is not None and kept.answers.raw is not None:
        return _by_name(nodes, kept.answers.raw[nodes.rows])
    return _by_name(nodes, plugin.score(kept.state, nodes.rows))


def _by_name(nodes: Picture, values: NDArray[Any]) -> dict[str, float]:
    return {nodes.names[row]: float(values[i]) for i, row in enumerate(nodes.rows.tolist())}


def _fingerprint(nodes: Picture) -> tuple[Any, ...]:
    """Everything a careless plugin could have written to."""
    amounts = nodes.amounts
    arrays = (
        amounts.allocatable, amounts.requested, amounts.free, amounts.divisor,
        amounts.nonzero, amounts.spare, nodes.alive, nodes.unschedulable, nodes.taint_set,
    )  # fmt: skip
    return (nodes.seq, nodes.node_journal.seq, *(array.tobytes() for array in arrays))
