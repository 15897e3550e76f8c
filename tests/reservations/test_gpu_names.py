"""Owners and reservations may write the same request for GPUs in different names."""

from random import Random

import pytest

from holdfast.api.koordinator_names import GPU, GPU_CORE, GPU_MEMORY_RATIO, GPU_SHARED
from holdfast.api.scheme import PODS
from holdfast.scheduling.engine.invariants import check_invariants, invariant_violations
from holdfast.scheduling.framework.plugin import NO_CHANGE, PodChange
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.testing import a_node, a_pod, a_reservation, typed
from reservations.random_owners import check_rows, plan_of, play
from soak_size import SEED, rounds

WHOLE = "nvidia.com/gpu"
ANNOTATION = "scheduling.koordinator.sh/reservation-allocated"
NAMED = {"scheduling.koordinator.sh/reservation-affinity": '{"name": "r"}'}


def all_names(percent):
    return dict.fromkeys((GPU, GPU_CORE, GPU_MEMORY_RATIO, GPU_SHARED, WHOLE), str(percent))


def in_parts(percent, **more):
    return {GPU_CORE: str(percent), GPU_MEMORY_RATIO: str(percent), GPU_SHARED: "1", **more}


def a_gpu_owner(name, requests, **fields):
    return a_pod(name, cpu=None, requests=requests, labels={"app": "web"}, **fields)


@pytest.fixture
async def full(cluster):
    """A Restricted reservation of which two owners use 50 percent each, in other names."""
    await cluster.create(a_node("n", allocatable=all_names(200)))
    reservation = a_reservation(
        "r", cpu=None, requests={GPU: "100"}, owner_labels={"app": "web"}, allocate_once=False,
        allocate_policy="Restricted",
    )  # fmt: skip
    await cluster.create(reservation)
    await cluster.create(a_gpu_owner("p", in_parts(50)), a_gpu_owner("q", in_parts(50)))
    return cluster


async def test_owners_count_in_the_names_of_the_reservation(full):
    for name in ("p", "q"):
        assert ANNOTATION in (await full.pod(name)).metadata.annotations
    found = (await full.reservation("r")).status
    assert found.allocated == {GPU: "100"}
    assert [condition.reason for condition in found.conditions] == ["Scheduled", "Available"]
    await full.restart_components()
    await full.create(a_gpu_owner("more", in_parts(1), annotations=NAMED))
    short = "Reservation(s) Insufficient koordinator.sh/gpu, requested: 1, used: 100, capacity: 100"
    assert short in await full.why("more")


async def test_a_gone_owner_gives_back_what_it_used(full):
    await full.delete(PODS, "p", "default")
    assert (await full.reservation("r")).status.allocated == {GPU: "50"}
    await full.create(a_gpu_owner("more", {GPU: "50"}, annotations=NAMED))
    assert (await full.reservation("r")).status.allocated == {GPU: "100"}


def a_gpu_world(random, allocatable, *, overcommitted):
    """Three nodes with reservations; only with ``overcommitted`` may these exceed their node."""
    world = World()
    for i in range(3):
        world.upsert(typed(a_node(f"n{i}", allocatable=allocatable)))
    for i in range(8):
        status = {
            "phase": "Available", "nodeName": f"n{random.randint(0, 2)}",
            "allocatable": random.choice(FORMS)(random.randint(1, 3) * 50),
        }  # fmt: skip
        reservation = a_reservation(
            f"r{i}", owner_labels={"app": "web"}, allocate_once=random.random() < 0.3,
            allocate_policy=random.choice(("", "Aligned", "Restricted")), status=status,
        )  # fmt: skip
        with_it = world.fork()
        with_it.upsert(typed(reservation))
        if overcommitted or not invariant_violations(with_it):
            world = with_it
    return world


FORMS = (
    in_parts,
    lambda percent: {GPU: str(percent)},
    lambda percent: {WHOLE: str(-(-percent // 100))},
    lambda percent: {"cpu": "1"},
)


def a_random_gpu_owner(random, name):
    return a_gpu_owner(name, random.choice(FORMS)(random.choice((20, 50, 100))))


@pytest.mark.parametrize("seed", range(SEED, SEED + rounds(4)))
def test_a_row_alone_equals_all_rows_and_changes_equal_the_world_after_them(seed):
    """Other schedulers bind pods with any allocations, so nodes may be overcommitted here."""
    random = Random(seed)
    world = a_gpu_world(random, all_names(400), overcommitted=True)
    standing = []
    for number in range(8):
        pod = a_random_gpu_owner(random, f"p{number}")
        plan = plan_of(world, pod)
        row = random.choice(plan.match.rows.tolist())
        removed = {row: tuple(p for p in standing if world.nodes.pod(p.uid)[1] == row)}
        for change in (NO_CHANGE, PodChange(removed=removed)):
            check_rows(plan, change)
        after = world.fork()
        for gone in removed[row]:
            after.delete(gone.pod)
        asked = plan.filter(plan.match.rows, PodChange(removed=removed)).tolist()
        assert asked == plan_of(after, pod).filter(plan.match.rows).tolist()
        pod_info = world.pod_info(typed(pod))
        for chosen in world.match(pod_info).slots.tolist():
            info = world.reservations.at(chosen)
            if info.matchable and random.random() < 0.3:
                world.assume(pod_info, world.nodes.row_of[info.node])
                world.reservations.allocate(pod_info.uid, {info.uid: dict(pod_info.request)})
                standing.append(pod_info)
                break
        assert not invariant_violations(world, ours=())


@pytest.mark.parametrize("seed", range(SEED, SEED + rounds(4)))
def test_owners_in_any_names_never_exceed_a_node(seed):
    random = Random(seed)
    world = a_gpu_world(random, {**all_names(200), WHOLE: "2"}, overcommitted=False)
    for _ in play(random, world, 50, an_owner=a_random_gpu_owner):
        check_invariants(world)


def test_exact_match_compares_the_same_names():
    world = World()
    world.upsert(typed(a_node("n", allocatable=all_names(200))))
    status = {"phase": "Available", "nodeName": "n", "allocatable": {GPU: "50"}}
    world.upsert(typed(a_reservation("r", owner_labels={"app": "web"}, status=status)))
    exact = {"scheduling.koordinator.sh/exact-match-reservation": f'{{"resourceNames":["{GPU}"]}}'}
    for percent, matches in ((50, True), (40, False)):
        pod = world.pod_info(typed(a_gpu_owner("p", in_parts(percent), annotations=exact)))
        assert (View(world, pod, 0.0).matched_reservations is not None) is matches
