"""Counters that are made in steps count the same as those made at once."""

from itertools import count
from random import Random

import pytest

from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.scheduling.framework.world import World
from holdfast.state.columns import pod_placements
from holdfast.state.columns.affinity_terms import PodSelector
from holdfast.testing import a_namespace, a_node, a_pod, typed
from soak_size import SEED, TIMES

SPACES = ("a", "b", "c")


def a_pod_selector(random):
    labels = from_selector(LabelSelector(match_labels={random.choice("xy"): random.choice("12")}))
    team = from_selector(LabelSelector(match_labels={"team": random.choice("rs")}))
    return PodSelector(frozenset(random.sample(SPACES, 1)), labels, team)


class Changes:
    """Pods that come and go, labels of namespaces and new selector keys, in the pauses."""

    def __init__(self, random, world):
        self.random, self.world, self.there, self.made = random, world, [], 0

    def make(self):
        random, world = self.random, self.world
        kind = random.random()
        if kind < 0.3 and self.there:
            world.delete(self.there.pop(random.randrange(len(self.there))))
        elif kind < 0.35:
            labels = {"team": random.choice("rs")}
            world.upsert(typed(a_namespace(random.choice(SPACES), labels=labels)))
        elif kind < 0.4:
            world.nodes.add_selector_keys(frozenset({f"key-{random.randrange(9)}"}))
        else:
            self.made += 1
            labels = {key: random.choice("123") for key in ("x", "y", f"key-{random.randrange(9)}")}
            pod = a_pod(f"p{self.made}", namespace=random.choice(SPACES), cpu="1m", labels=labels,
                        node=f"n{random.randrange(3)}")  # fmt: skip
            self.there.append(typed(pod))
            world.upsert(self.there[-1])


@pytest.mark.parametrize("most", [1024, 3])
@pytest.mark.parametrize("seed", range(SEED, SEED + 3 * TIMES))
def test_a_counter_made_in_steps_equals_one_made_at_once(monkeypatch, seed, most):
    monkeypatch.setattr(pod_placements, "_MATCHES_A_STEP", 2)
    monkeypatch.setattr(pod_placements, "_MAX_COUNTERS", most)
    random, world = Random(seed), World()
    changes = Changes(random, world)
    for i in range(3):
        world.upsert(typed(a_node(f"n{i}")))
    for _ in range(40):
        changes.make()
    pauses = 0
    for number in range(8):
        wanted = [(a_pod_selector(random),), (a_pod_selector(random), a_pod_selector(random))]
        owner = random.choice(SPACES)
        for _ in world.nodes.count_in_steps(number, owner, lambda: wanted):  # noqa: B023
            pauses += 1
            changes.make()
        copy = world.fork().nodes
        for pod_selectors in wanted:
            found, expected = (n.count(pod_selectors, owner) for n in (world.nodes, copy))
            assert found.all.tolist() == expected.all.tolist()
    assert pauses > 30
    if most > 100:
        assert not [*world.nodes.count_in_steps(7, owner, lambda: wanted)]


def test_a_namespace_does_not_drop_the_counters_of_another(monkeypatch):
    monkeypatch.setattr(pod_placements, "_MAX_COUNTERS", 10)
    world, random = World(), Random(1)
    own = world.nodes.count((a_pod_selector(random),), "victim")
    for number in range(50):
        labels = from_selector(LabelSelector(match_labels={"x": f"{number}"}))
        world.nodes.count((PodSelector(frozenset({"hostile"}), labels),), "hostile")
    assert world.nodes.count(own.pod_selectors, "victim") is own


def test_pods_that_need_many_counters_get_them_all_however_many_others_do(monkeypatch):
    """Each needs more than its share of the space; in turns they would drop those of each other."""
    monkeypatch.setattr(pod_placements, "_MAX_COUNTERS", 40)
    world = World()
    world.upsert(typed(a_node("n0")))
    for name in SPACES:
        world.upsert(typed(a_pod("p", namespace=name, node="n0", labels={"x": "1"})))

    def wanted(name):
        texts = [LabelSelector(match_labels={"x": f"{name}{i}"}) for i in range(30)]
        return [(PodSelector(frozenset({name}), from_selector(text)),) for text in texts]

    running = {name: iter(world.nodes.count_in_steps(name, name, lambda n=name: wanted(n)))
               for name in SPACES}  # fmt: skip
    ended, again = [], count()
    for _ in range(1000):
        for name in [*running]:
            if next(running[name], "ended") == "ended":
                del running[name]
                ended.append(name)
                steps = world.nodes.count_in_steps(next(again), name, lambda n=name: wanted(n))
                assert not [*steps], "nothing is left to be made in the cycle"
    assert sorted(ended) == [*SPACES]


def test_a_preparation_that_is_given_up_leaves_the_turn_to_others():
    world = World()
    world.upsert(typed(a_node("n0")))
    world.upsert(typed(a_pod("p", namespace="a", node="n0")))
    wanted = [
        (PodSelector(frozenset({"a"}), from_selector(LabelSelector(match_labels={f"k{i}": "1"}))),)
        for i in range(30)
    ]
    steps = iter(world.nodes.count_in_steps("a", "a", lambda: wanted))
    next(steps)
    del steps
    assert len([*world.nodes.count_in_steps("b", "a", lambda: wanted)]) >= 29


def test_a_table_that_has_grown_makes_its_counters_in_steps_again():
    world = World()
    world.upsert(typed(a_node("n0")))
    world.upsert(typed(a_pod("p", namespace="a", node="n0")))
    labels = from_selector(LabelSelector(match_labels={"k": "1"}))
    wanted = [(PodSelector(frozenset({"a"}), labels),)]
    assert [*world.nodes.count_in_steps("a", "a", lambda: wanted)]
    assert not [*world.nodes.count_in_steps("a", "a", lambda: wanted)]
    capacity = world.nodes.capacity
    for i in range(1, capacity + 1):
        world.upsert(typed(a_node(f"n{i}")))
    assert world.nodes.capacity > capacity
    assert [*world.nodes.count_in_steps("a", "a", lambda: wanted)]
