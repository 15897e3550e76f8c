"""Pods are grouped by the labels under selector keys, at once and in steps."""

from random import Random

import pytest

from holdfast.api.labels import from_labels
from holdfast.state.columns import counter_steps, label_groups
from holdfast.state.columns.label_groups import LabelGroups
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing import a_node, a_pod, typed
from soak_size import SEED, TIMES

NODES = 5


class LabelledPods:
    """A table whose pods change at random."""

    def __init__(self, random, pods):
        self.random, self.table, self.there, self.made = random, NodeTable(), {}, 0
        for i in range(NODES):
            self.table.upsert_node(typed(a_node(f"n{i}")))
        for _ in range(pods):
            self.add()

    def add(self):
        random, self.made = self.random, self.made + 1
        labels = {key: random.choice("xyz") for key in "abc" if random.random() < 0.8}
        raw = a_pod(f"p{self.made}", labels=labels, namespace=random.choice(["default", "other"]))
        pod = PodInfo.of(typed(raw), self.table.resources)
        self.table.add_pod(pod, f"n{random.randrange(NODES)}")
        self.there[pod.uid] = pod

    def change(self):
        if self.there and self.random.random() < 0.5:
            uid = self.random.choice([*self.there])
            del self.there[uid]
            self.table.remove_pod(uid)
        else:
            self.add()

    def expected_counts(self, key, value):
        rows = [0] * NODES
        for uid, pod in self.there.items():
            if pod.labels.get(key) == value and pod.namespace == "default":
                rows[self.table.pod(uid)[1]] += 1
        return rows

    def counts(self, key, value):
        selector = from_labels({key: value})
        return self.table.counter("default", selector).live[:NODES].tolist()

    def check_groups(self, keys):
        """Every pod is in one group, that of its labels under the keys."""
        found = {}
        for group in self.table.label_groups():
            for uid, row in group.rows.items():
                assert uid not in found
                found[uid] = (group.namespace, dict(group.labels))
                assert self.table.pod(uid)[1] == row
        expected = {
            uid: (pod.namespace, {k: v for k, v in pod.labels.items() if k in keys})
            for uid, pod in self.there.items()
        }
        assert found == expected


@pytest.mark.parametrize("seed", range(SEED, SEED + 10 * TIMES))
def test_groups_made_in_steps_are_those_made_at_once(monkeypatch, seed):
    monkeypatch.setattr(counter_steps, "_PODS_A_STEP", 7)
    random = Random(seed)
    pods = LabelledPods(random, 60)
    pods.table.add_selector_keys(frozenset("a"))
    before, steps = pods.table.epochs["labels"], 0
    for _ in pods.table.add_selector_keys_in_steps(frozenset("ab")):
        steps += 1
        for _ in range(random.randrange(4)):
            pods.change()
        # Counters by the keys of before are right at any time, also new ones.
        value = random.choice("xyz")
        assert pods.counts("a", value) == pods.expected_counts("a", value)
        if random.random() < 0.1:
            pods.table.add_selector_keys(frozenset("c"))
        if random.random() < 0.1:
            assert pods.counts("b", "x") == pods.expected_counts("b", "x")
    assert pods.table.epochs["labels"] > before
    assert steps
    assert not [*pods.table.add_selector_keys_in_steps(frozenset("b"))]
    pods.table.add_selector_keys(frozenset("c"))
    pods.check_groups("abc")
    for key in "abc":
        assert pods.counts(key, "x") == pods.expected_counts(key, "x")
    fork = pods.table.fork()
    assert len(fork.label_groups()) == len(pods.table.label_groups())


def test_what_needs_the_keys_before_the_last_step_makes_the_groups_at_once(monkeypatch):
    monkeypatch.setattr(counter_steps, "_PODS_A_STEP", 7)
    pods = LabelledPods(Random(1), 60)
    steps = pods.table.add_selector_keys_in_steps(frozenset("a"))
    next(steps)
    assert pods.counts("a", "x") == pods.expected_counts("a", "x")
    pods.check_groups("a")
    assert not [*steps]


def test_groups_with_pods_are_not_copied_for_every_further_one(monkeypatch):
    """Where a selector uses a label of its own for each pod, there are as many groups as pods."""
    monkeypatch.setattr(label_groups, "_MAX_GROUPS", 8)
    groups = LabelGroups()
    groups.add_selector_keys({"name"})
    copies, before = 0, None
    for number in range(200):
        group = groups.of("default", {"name": f"p{number}"}, (), {})
        group.rows[f"uid-{number}"] = number
        copies += groups._groups is not before
        before = groups._groups
    assert len(groups) == 200
    assert copies < 10
