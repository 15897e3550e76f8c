"""Plugins exclude some of the reservations that the Reservation plugin nominates from."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from holdfast.scheduling.engine.decision import decide
from holdfast.scheduling.engine.decision_cache import DecisionCache
from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.declarations import declaration_fault
from holdfast.scheduling.framework.plugin import NO_CHANGE, Plugin, PodChange, Scope, Skip, Traits
from holdfast.scheduling.framework.reservation_options import ReservationFilter, ReservationOptions
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.plugins.reservation.nomination import choose
from holdfast.scheduling.plugins.reservation.owner_fit import fit_owner, nominable, row_scores
from holdfast.scheduling.plugins.reservation.row_fit import fit_row
from holdfast.state.columns.interner import CPU, MEMORY
from holdfast.state.reservations.reserved_resources import NOTHING_FREED, freed_capacity
from holdfast.testing import a_node, a_pod, a_priority_class, a_reservation, typed
from holdfast.testing.conformance import check_plugin
from holdfast.testing.harness import Harness
from reservations.random_owners import a_world, an_owner, plan_of
from soak_size import SEED, rounds

AFFINITY = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
WRONG, PLAIN = "Reservation(s) wrong flavor", "node(s) not for plain pods"


@dataclass(frozen=True)
class Tastes(ReservationFilter):
    """Excludes reservations of another flavor, and unused reservations on some nodes."""

    nodes: Any
    reservations: Any
    flavor: str
    match: Any

    def filter(self, rows, change=NO_CHANGE):
        best = self.filter_without_reservation(rows, change).copy()
        for i, row in enumerate(rows.tolist()):
            if self.match is not None:
                here = self.match.slots[self.match.span(row)]
                best[i] = min([best[i], *self.filter_reservations(here, change)])
        return best

    def reasons(self, row, change=NO_CHANGE):
        return (PLAIN,)

    def filter_reservations(self, slots, change=NO_CHANGE):
        infos = [self.reservations.at(slot) for slot in slots.tolist()]
        return np.array([self.verdict(info, change) for info in infos], np.int8)

    def verdict(self, info, change):
        flavor = info.reservation.metadata.labels.get("flavor", info.reservation.name[-1])
        row = self.nodes.row_of[info.node]
        there = {p.uid for p in self.nodes.pods_on(row).values() if not p.is_reserve_pod}
        there -= {p.uid for p in change.removed.get(row, ())}
        there |= {p.uid for p in change.added.get(row, ())}
        if flavor in ("alone", "3"):
            return int(bool(there))
        return 0 if flavor in self.flavor else 2 if flavor in ("never", "4") else 1

    def filter_without_reservation(self, rows, change=NO_CHANGE):
        last = [self.nodes.names[row][-1:] for row in rows.tolist()]
        return np.array([2 if mark in ("1", "3", "5") else 0 for mark in last], np.int8)

    def reservation_reasons(self, slot, change=NO_CHANGE):
        return (WRONG,)


class Flavors(Plugin):
    """Filters the pods that have a flavor."""

    name = "Flavors"
    traits = Traits(
        scope=Scope.ROW, epochs=("reservations", "nodes", "classes"), reads_outside_spec=True
    )
    plan_classes = (Tastes,)

    def reads(self, pod, view):
        matched = view.matched_reservations
        return pod.pod.metadata.annotations.get("flavor"), None if matched is None else matched.key

    def pre_filter(self, pod, view):
        flavor = pod.pod.metadata.annotations.get("flavor")
        return Skip() if flavor is None else self.plan_classes[0](*tastes(view, flavor))


def tastes(view, flavor):
    return view.nodes, view.world.reservations, flavor, view.matched_reservations


def a_pod_with_flavor(flavor, name="p", **fields):
    annotations = {"flavor": flavor} | fields.pop("annotations", {})
    return a_pod(name, labels={"app": "web"}, annotations=annotations, **fields)


def a_flavored_reservation(name, flavor, node="n", cpu="2", **fields):
    return a_reservation(
        name,
        owner_labels={"app": "web"},
        cpu=cpu,
        metadata={"labels": {"flavor": flavor}},
        template={"node": node},
        **fields,
    )


@pytest.fixture
async def cluster(tmp_path):
    plain = default_profiles()["default-scheduler"]
    profile = Profile(plain.name, (*plain.plugins, Flavors()), plain.weights)
    async with Harness(tmp_path / "store", profiles={plain.name: profile}) as harness:
        yield harness


async def used(cluster, name="p"):
    pod = await cluster.pod(name)
    return pod.metadata.annotations.get("scheduling.koordinator.sh/reservation-allocated", "")[9:11]


async def test_an_excluded_reservation_is_not_used_and_says_why(cluster):
    await cluster.create(a_node("n", cpu="8"))
    await cluster.create(a_flavored_reservation("r1", "sweet"))
    await cluster.create(a_flavored_reservation("r2", "sour"))
    await cluster.create(a_pod_with_flavor("sour", cpu="1"))
    assert await used(cluster) == "r2"
    await cluster.create(a_pod_with_flavor("salty", "q", cpu="1"))
    assert WRONG in await cluster.why("q")
    await cluster.create(a_pod_with_flavor("salty", "a", cpu="1", annotations=AFFINITY))
    assert WRONG in await cluster.why("a")
    await cluster.create(a_pod("plain", labels={"app": "web"}, cpu="1"))
    assert await used(cluster, "plain") == "r1"


async def test_a_pod_without_a_reservation_needs_the_plugins_too(cluster):
    await cluster.create(a_node("n1", cpu="8"))
    await cluster.create(a_flavored_reservation("r1", "sweet", "n1", allocate_once=False))
    await cluster.create(a_pod_with_flavor("sweet", cpu="2"))
    assert await used(cluster) == "r1"
    # Nothing is left of the reservation, so that it does not apply, but the node is excluded.
    await cluster.create(a_pod_with_flavor("sweet", "q", cpu="2"))
    assert PLAIN in await cluster.why("q")


async def test_preemption_evicts_inside_an_allowed_reservation(cluster):
    await cluster.create(a_node("n", cpu="4"), a_priority_class("high", 10))
    await cluster.create(a_flavored_reservation("r1", "alone", cpu="4", allocate_once=False))
    await cluster.create(a_pod_with_flavor("", "low", cpu="1"))
    assert await used(cluster, "low") == "r1"
    # The plugin allows the reservation without the pod there.
    await cluster.create(a_pod_with_flavor("", "high", cpu="1", priority_class_name="high"))
    await cluster.advance(60)
    assert await used(cluster, "high") == "r1"


def test_a_row_alone_equals_all_rows_with_options():
    for seed in range(SEED, SEED + rounds(6)):
        random = Random(seed)
        world = a_world(random)
        for number in range(6):
            pod = an_owner(random, f"p{number}")
            plain = plan_of(world, pod)
            if plain.ignores_reservations:
                continue
            view = View(world, world.pod_info(typed(pod)), 0.0)
            own = Tastes(*tastes(view, random.choice(("012345", "6", ""))))
            cpus = lambda row: frozenset((CPU,) if row % 2 else ())  # noqa: E731
            options = ReservationOptions([own], cpus)
            plan = plain.with_options(options)
            plan = replace(plan, falls_back=random.random() < 0.5)
            row = random.choice(plan.match.rows.tolist())
            removed = tuple(world.nodes.pods_on(row).values())
            for change in (NO_CHANGE, PodChange(removed={row: removed})):
                check_row_alone(plan, change)


def check_row_alone(plan, change):
    freed = freed_capacity(plan.reservations, change) if change else NOTHING_FREED
    found = fit_owner(plan, freed, change)
    named, scores = nominable(plan, found), row_scores(plan, found)
    for here, row in enumerate(plan.match.rows.tolist()):
        one = fit_row(plan, row, freed, change)
        assert one.passes == found.passes[here]
        assert one.unresolvable == (found.unresolvable[here] and not found.passes[here])
        assert one.score == scores[here]
        for i, (info, fit) in enumerate(one.fits, one.begin):
            assert fit.serves == found.serves[i]
            assert fit.by_node == found.by_node[i]
            assert (info in one.nominable) == named[i]
        chosen, _ = choose(one)
        assert chosen is None or not found.excluded[plan.match.slots.tolist().index(chosen.slot)]


class Identities:
    """A ledger by which pods get certain CPUs."""

    takes = ()

    def identified_resources(self, pod, row):
        return frozenset((CPU,))


class WorldWithIdentities(World):
    """A world with one more ledger."""

    @property
    def ledgers(self):
        return (*super().ledgers, Identities())


@pytest.mark.parametrize(
    ("kind", "cpus", "drawn"),
    [
        (World, "8", {"r1": 4000, "r2": 2000}),
        (WorldWithIdentities, "16", {"r1": 6000}),
        (WorldWithIdentities, "8", None),
    ],
)
def test_what_has_an_identity_comes_from_one_reservation(kind, cpus, drawn):
    world = kind()
    world.upsert(typed(a_node("n", cpu=cpus)))
    for name in ("r1", "r2"):
        reserved = {"cpu": "4", "memory": "1Gi"}
        status = {"phase": "Available", "nodeName": "n", "allocatable": reserved}
        made = a_flavored_reservation(name, "sweet", cpu="4", memory="1Gi", status=status)
        world.upsert(typed(made))
    profile = default_profiles()["default-scheduler"]
    profile = Profile(profile.name, (*profile.plugins, Flavors()), profile.weights)
    pod = world.pod_info(typed(a_pod_with_flavor("sweet", cpu="6", memory="2Gi")))
    found = decide(profile, profile.view(pod, world, 0.0), np.random.default_rng(0))
    if drawn is None:
        assert "Insufficient cpu by node" in found.reasons(0)
        return
    world.assume(pod, found.row)
    found.plans["Reservation"].reserve(found)
    infos = world.reservations.by_uid.values()
    taken = {info.reservation.name: info.allocated_by_pod.get(pod.uid, {}) for info in infos}
    assert {name: amounts[CPU] for name, amounts in taken.items() if CPU in amounts} == drawn
    # Memory is fungible: it comes from both.
    assert [amounts[MEMORY] for amounts in taken.values()] == [2**30, 2**30]
    check_invariants(world)


def with_flavor(cluster):
    for _ in range(4):
        cluster.add_other()
    pod = cluster.a_waiting_pod()
    flavor = cluster.random.choice(("0123", "45", ""))
    return replace_annotations(pod, {**pod.metadata.annotations, "flavor": flavor})


def replace_annotations(pod, annotations):
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def test_the_sample_plugin_conforms():
    check_plugin(Flavors, pods=with_flavor, seed=SEED, clusters=rounds(2))


def test_a_filter_that_forgets_options_does_not_conform():
    class Without(Tastes):
        def filter(self, rows, change=NO_CHANGE):
            return self.filter_without_reservation(rows, change)

    class Forgets(Flavors):
        plan_classes = (Without,)

    with pytest.raises(AssertionError, match="filter returns the best option"):
        check_plugin(Forgets, pods=with_flavor, seed=1)


def test_classes_share_the_plan_with_options():
    world = a_world(Random(1), ordered=False)
    profile = default_profiles()["default-scheduler"]
    profile = Profile(profile.name, (*profile.plugins, Flavors()), profile.weights)
    cache = DecisionCache(profile)

    def outcome(pod):
        pod_info = world.pod_info(typed(pod))
        pod_class = cache.pod_class(pod_info, View(world, pod_info, 0.0))
        return next(p for p in pod_class.outcomes if p.use.name == "Reservation")

    plain = outcome(a_pod("a", labels={"app": "web"}, cpu="1"))
    assert plain.plan.options is None
    one = outcome(a_pod_with_flavor("0", "b", cpu="1"))
    other = outcome(a_pod_with_flavor("0", "c", cpu="1", node_selector={"disk": "ssd"}))
    assert one is other
    assert one.plan.options is not None
    assert one.combined[0] is plain


def test_a_plugin_of_scope_cluster_cannot_exclude_reservations():
    class PerPod(Flavors):
        traits = Traits()

    assert "must not be CLUSTER" in declaration_fault(PerPod())
    assert declaration_fault(Flavors()) == ""
