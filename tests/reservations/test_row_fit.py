"""Evaluating one row in plain integers gives the same as evaluating all rows as arrays."""

from random import Random

import numpy as np
import pytest

from holdfast.capacity.reserved_resources import NOTHING_FREED, freed_capacity
from holdfast.columns.interner import CPU
from holdfast.engine.decision import decide, feasible, scored_rows
from holdfast.engine.decision_cache import DecisionCache
from holdfast.engine.profile import Profile
from holdfast.engine.scoring import score_rows
from holdfast.framework.plugin import Code, Placement, PodChange
from holdfast.framework.rejection import Rejection
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.plugins import default_profiles
from holdfast.plugins.reservation import ReservationPlugin
from holdfast.plugins.reservation.nomination import choose, nominate
from holdfast.plugins.reservation.owner_fit import fit_owner, nominable, reservation_scores
from holdfast.plugins.reservation.owner_plan import OwnerPlan
from holdfast.plugins.reservation.owner_results import OwnerResults
from holdfast.plugins.reservation.row_fit import fit_row, reservation_score
from holdfast.testing import a_node, a_pod, a_reservation, typed
from soak_size import SEED, rounds

GPU = "example.com/gpu"
POLICIES = ("", "Aligned", "Restricted")
SEEDS = range(SEED, SEED + rounds(6))


def a_world(random, *, ordered=True):
    world = World()
    for i in range(5):
        world.upsert(typed(a_node(f"n{i}", cpu="8", memory="16Gi", **{GPU: 2})))
    for i in range(10):
        world.upsert(a_random_reservation(random, i, ordered=ordered))
    return world


def a_random_reservation(random, i, *, ordered):
    phase = random.choice(("Available", "Available", "Available", "Waiting"))
    # A waiting reservation may hold more than its node has left.
    cpu = random.randint(1, 4) + (5 if phase == "Waiting" else 0)
    amounts = {"cpu": f"{cpu}", "memory": f"{random.randint(1, 4)}Gi"}
    if random.random() < 0.4:
        amounts[random.choice((GPU, "pods"))] = str(random.randint(1, 3))
    more = {"labels": {"scheduling.koordinator.sh/reservation-order": str(random.randint(1, 3))}}
    metadata = {"creationTimestamp": f"2026-01-0{random.randint(1, 3)}T00:00:00Z"}
    return typed(
        a_reservation(
            f"r{i}",
            owner_labels={"app": "web" if phase == "Available" else random.choice(("web", "db"))},
            allocate_once=random.random() < 0.3,
            allocate_policy=random.choice(POLICIES),
            metadata=metadata | (more if ordered and random.random() < 0.3 else {}),
            status={
                "phase": phase,
                "nodeName": f"n{random.randint(0, 4)}",
                "allocatable": amounts,
            },
        )
    )


def an_owner(random, name):
    more = {GPU: "1"} if random.random() < 0.3 else {}
    labels = {"app": "web"}
    if random.random() < 0.2:
        labels["scheduling.koordinator.sh/reservation-ignored"] = "true"
    if random.random() < 0.3:
        more["annotations"] = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
    return a_pod(name, cpu=f"{random.randint(1, 8) * 250}m", memory="512Mi", labels=labels, **more)


def plan_of(world, pod):
    pod_info = world.pod_info(typed(pod))
    found = ReservationPlugin({}).pre_filter(pod_info, View(world, pod_info, 0.0))
    assert isinstance(found, OwnerPlan)
    return found


def check_rows(plan, change):
    back = freed_capacity(plan.reservations, change) if change else NOTHING_FREED
    found = fit_owner(plan, back)
    named = nominable(plan, found)
    scores, match = reservation_scores(plan, found), plan.match
    for here, row in enumerate(match.rows.tolist()):
        one = fit_row(plan, row, back)
        assert one.passes == found.passes[here]
        for i, (info, fit) in enumerate(one.fits, one.begin):
            assert info.slot == match.slots[i]
            assert fit._asdict() == {name: getattr(found, name)[i] for name in fit._fields}
            assert (info in one.nominable) == named[i]
            assert reservation_score(info, plan.compared_with(info.slot), fit) == scores[i]
            assert one.scores.get(info.slot) == (scores[i] if found.serves[i] else None)


def play(random, world, steps, on_step=lambda _plan, _placement: None, *, an_owner=an_owner):
    """Place owners and delete some of them again, and call ``on_step`` after each placement."""
    profile: Profile = default_profiles()["default-scheduler"]
    rng = np.random.default_rng(random.randint(0, 99))
    plugin, standing = profile.plugin("Reservation"), []
    for step in range(steps):
        if standing and random.random() < 0.3:
            pod_info = standing.pop(random.randrange(len(standing)))
            world.reservations.deallocate(pod_info.uid)
            world.forget(pod_info.uid)
        else:
            pod_info = world.pod_info(typed(an_owner(random, f"p{step}")))
            found = decide(profile, profile.view(pod_info, world, 0.0), rng)
            if isinstance(found, Placement):
                world.assume(pod_info, found.row)
                if (plan := found.plans.get(plugin.name)) is not None:
                    on_step(plan, found)
                    plan.reserve(found)
                standing.append(pod_info)
        yield standing


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
