"""The pods of each row by rank, computed at once and in steps."""

from random import Random

import pytest

from holdfast.state.columns.interner import CPU
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.ranked_pods import RankedPods
from holdfast.testing import a_node, a_pod, typed
from soak_size import SEED, TIMES

NODES = 90  # three steps


def name_length(pod):
    return len(pod.pod.name)


class Pods:
    """A node table whose pods change at random."""

    def __init__(self, random):
        self.random = random
        self.nodes = NodeTable()
        self.there = {}
        for i in range(NODES):
            self.nodes.upsert_node(typed(a_node(f"n{i}")))
        for _ in range(2 * NODES):
            self.change()

    def change(self):
        random = self.random
        if self.there and random.random() < 0.4:
            uid = random.choice([*self.there])
            self.nodes.remove_pod(uid)
            del self.there[uid]
            return
        name = "p" + "x" * random.randrange(5) + str(random.randrange(10**6))
        options = {"cpu": f"{random.randrange(1, 9)}00m", "priority": random.randrange(4)}
        pod = PodInfo.of(typed(a_pod(name, **options)), self.nodes.resources)
        self.nodes.add_pod(pod, f"n{random.randrange(NODES)}")
        self.there[pod.uid] = pod


def steps(nodes):
    ranked = yield from nodes.ranked_pods_in_steps()
    yield from ranked.amounts_in_steps(CPU)
    yield from ranked.values_in_steps("length", name_length, 1)


def contents(ranked):
    """Return everything of a RankedPods; equally important pods may be in any order."""
    columns = [
        ranked.priority,
        ranked.started,
        ranked.amounts(CPU),
        ranked.values_of("length", name_length, 1),
    ]
    rows = []
    for row, pods in enumerate(ranked.pods):
        values = zip(*(column.rows[row] for column in columns), strict=True)
        rows.append(sorted(zip([pod.uid for pod in pods], values, strict=True)))
    for column in columns[2:]:
        assert column.totals.tolist() == [sum(row) for row in column.rows]
    for column in columns:
        for row in range(NODES):
            values = column.rows[row]
            assert column.columns()[: len(values), row].tolist() == list(values)
    for row in ranked.priority.rows:
        assert list(row) == sorted(row, reverse=True)
    return rows, ranked.count.tolist()


@pytest.mark.parametrize("seed", range(SEED, SEED + 8 * TIMES))
def test_ranks_computed_in_steps_equal_those_computed_at_once(seed):
    """Pods change in the pauses, and the ranks may be read there."""
    random = Random(seed)
    pods = Pods(random)
    counted = 0
    for _ in range(3):
        for _ in range(random.choice([0, 3, 2 * NODES])):
            pods.change()
        for _ in steps(pods.nodes):
            counted += 1
            for _ in range(random.randrange(3)):
                pods.change()
            if random.random() < 0.1:
                pods.nodes.ranked_pods().values_of("length", name_length, 1)
        fresh = RankedPods(pods.nodes)
        fresh.refresh()
        assert contents(pods.nodes.ranked_pods()) == contents(fresh)
    assert counted
