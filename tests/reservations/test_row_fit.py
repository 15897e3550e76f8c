"""Evaluating one row in plain integers gives the same as evaluating all rows as arrays."""

from random import Random

import numpy as np
import pytest

from holdfast.scheduling.engine.decision import feasible, scored_rows
from holdfast.scheduling.engine.decision_cache import DecisionCache
from holdfast.scheduling.engine.scoring import score_rows
from holdfast.scheduling.framework.plugin import Code, PodChange
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.plugins.reservation.nomination import choose, nominate
from holdfast.scheduling.plugins.reservation.owner_plan import OwnerResults
from holdfast.state.columns.interner import CPU
from holdfast.state.reservations.reserved_resources import freed_capacity
from holdfast.testing import a_node, a_pod, a_reservation, typed
from reservations.random_owners import a_world, an_owner, check_rows, plan_of, play
from soak_size import SEED, rounds

SEEDS = range(SEED, SEED + rounds(6))


@pytest.mark.parametrize("seed", SEEDS)
def test_one_row_is_evaluated_as_all_rows_are(seed):
    random = Random(seed)
    world = a_world(random)
    for standing in play(random, world, 25):
        plan = plan_of(world, an_owner(random, "asker"))
        check_rows(plan, PodChange())
        gone = [pod_info for pod_info in standing if random.random() < 0.3]
        rows = {world.nodes.pod(pod_info.uid)[1] for pod_info in gone}
        removed = {row: tuple(f for f in gone if world.nodes.pod(f.uid)[1] == row) for row in rows}
        added = {random.randrange(5): (world.pod_info(typed(an_owner(random, "added"))),)}
        check_rows(plan, PodChange(added, removed))


def test_a_reservation_that_allocates_once_serves_one_of_the_added_pods():
    """The other added pod, and the pod itself, need unreserved resources."""
    world = World()
    world.upsert(typed(a_node("n", cpu="8")))
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4"}}
    world.upsert(typed(a_reservation("r", owner_labels={"app": "r"}, status=status)))
    pods = [a_pod(name, cpu="2", labels={"app": "r"}) for name in "abcd"]
    added = [world.pod_info(typed(pod)) for pod in pods[:3]]
    plan = plan_of(world, pods[3])
    found = [plan.filter_row(0, PodChange({0: tuple(added[:number])})) for number in range(4)]
    assert found == [Code.PASS, Code.PASS, Code.PASS, Code.UNSCHEDULABLE]
    taken = freed_capacity(world.reservations, PodChange({0: tuple(added[:2])}))
    assert taken.rows[0][CPU] == -2000
    assert taken.matchable == {0: False}
    check_rows(plan, PodChange({0: tuple(added)}))


@pytest.mark.parametrize("seed", SEEDS)
def test_cached_results_equal_fresh_ones(seed):
    random = Random(seed)
    world = a_world(random)
    plans = [plan_of(world, an_owner(random, f"asker{i}")) for i in range(4)]
    everything = slice(0, world.nodes.size)
    for _ in play(random, world, 25):
        for plan in plans:
            kept, anew = plan.current_results(), OwnerResults(plan)
            anew.refresh()
            assert (kept.verdicts == anew.verdicts).all()
            assert (kept.scores(everything) == anew.scores(everything)).all()


def test_the_reservation_is_nominated_as_if_the_pod_were_not_assumed_yet():
    remembered = []

    def on_step(plan, placement):
        before = plan.results.before(placement.row)
        if before is not None:
            without = PodChange(removed={placement.row: (placement.pod,)})
            assert choose(before) == nominate(plan, placement.row, without)
            remembered.append(before)

    for seed in SEEDS:
        random = Random(seed)
        for _ in play(random, a_world(random), 25, on_step):
            pass
    assert remembered, "no cached result was compared"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_rows_equal_those_of_scoring_all_rows(seed):
    """Comparing only the best rows gives the same as normalizing the scores of all rows."""
    random = Random(seed)
    ordered = seed % 3 == 0
    world, profile = a_world(random, ordered=ordered), default_profiles()["default-scheduler"]
    compared = 0
    for _ in play(random, world, 25):
        pod_info = world.pod_info(typed(an_owner(random, "asker")))
        found = feasible(profile, profile.view(pod_info, world, 0.0))
        if isinstance(found, Rejection) or found.mask is not None:
            continue
        scores = score_rows(profile, found.outcomes, found.rows)
        total = sum(score.weighted for score in scores)
        best = found.rows[total == total.max()]
        if found.pod_class.totals_complete:
            assert sorted(found.pod_class.best_rows()) == best.tolist()
        rows, sums = scored_rows(profile, found)
        assert np.arange(world.nodes.size)[rows][sums == sums.max()].tolist() == best.tolist()
        compared += found.pod_class.parts.dominant_score is not None
        anew = DecisionCache(profile).pod_class(pod_info, found.view)
        anew.refresh()
        assert (anew.feasible_mask == found.pod_class.feasible_mask).all()
        assert (anew.totals[anew.feasible_mask] == found.pod_class.totals[anew.feasible_mask]).all()
    assert ordered or compared, "no owner's best rows were compared alone"
