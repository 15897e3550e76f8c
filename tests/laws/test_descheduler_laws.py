"""Random clusters come to rest: pods do not move back and forth, and full nodes become no more.

Each cycle's plan, or the first part of it, is carried out by the scheduler's own decisions, as
the controller of PodMigrationJobs would: the room is found while the old pod still runs.
"""

from random import Random

import numpy as np
import pytest

from descheduler.clusters import NOW, SETTINGS, configured, objects, owned
from holdfast.controllers.descheduler.plan import plan_moves
from holdfast.controllers.descheduler.policies import POLICIES
from holdfast.controllers.descheduler.simulation import Simulation, predicting_profiles
from holdfast.scheduling.engine.decision import decide
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node
from holdfast.testing.builders import typed
from soak_size import SEED, rounds

ZONE = "topology.kubernetes.io/zone"
LOW, HIGH = 40, 70
LOAD = {
    "lowThresholds": {"cpu": LOW, "memory": LOW}, "highThresholds": {"cpu": HIGH, "memory": HIGH},
}  # fmt: skip
CYCLES = 60
PROFILE = default_profiles()["default-scheduler"]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def random_nodes(random):
    taint = {"key": "k", "effect": "NoSchedule"}
    return [
        a_node(
            f"n{i}",
            cpu=str(random.choice([4, 8, 16])),
            memory=f"{random.choice([8, 16, 32])}Gi",
            labels={ZONE: f"z{i % 3}", "disk": random.choice(["ssd", "hdd"])},
            taints=[taint] if random.random() < 0.15 else [],
        )
        for i in range(random.randint(2, 7))
    ]


def random_rules(random, app):
    """Return rules about where the pods of an app run, which they may break at first."""
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **selector}
    apart = [{"topologyKey": "kubernetes.io/hostname", **selector}]
    return random.choice([
        {}, {}, {},
        {"nodeSelector": {"disk": "ssd"}},
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
        {"topologySpreadConstraints": [spread]},
        {"affinity": {"podAntiAffinity": {REQUIRED: apart}}},
    ])  # fmt: skip


def random_pods(random, nodes):
    """Put pods on nodes without asking the scheduler; amounts fit, rules may be broken."""
    free = {n["metadata"]["name"]: int(n["status"]["allocatable"]["cpu"]) for n in nodes}
    pods = []
    for app in range(random.randint(1, 5)):
        rules, cpu = random_rules(random, f"app{app}"), random.choice([1, 1, 2, 3])
        preferred = random.choice(list(free))
        for i in range(random.randint(1, 8)):
            node = preferred if random.random() < 0.6 else random.choice(list(free))
            if free[node] >= cpu:
                free[node] -= cpu
                memory = f"{random.choice([128, 512])}Mi"
                pods.append(
                    owned(
                        f"a{app}-{i}", node, owner=f"app{app}", cpu=str(cpu), memory=memory, **rules
                    )
                )
    return pods


class Cluster:
    """Nodes and pods, changed by what a plan says."""

    def __init__(self, random):
        self.nodes = random_nodes(random)
        self.pods = {pod["metadata"]["name"]: pod for pod in random_pods(random, self.nodes)}
        self._rng = np.random.default_rng(random.randrange(2**32))
        self._moves = 0

    def objects(self):
        return objects(*self.nodes, *self.pods.values())

    def over(self):
        """Return the nodes above a high threshold."""
        world, found = self._world(), set()
        for name, row in world.nodes.row_of.items():
            has, uses = world.nodes.allocatable[:2, row], world.nodes.requested[:2, row]
            if (uses * 100 > has * HIGH).any():
                found.add(name)
        return found

    def _world(self):
        world = World()
        for raw in (*self.nodes, *self.pods.values()):
            world.upsert(typed(raw))
        return world

    def carry_out(self, move):
        """Move a pod as the scheduler decides; return whether it found a node."""
        old = self.pods[move.pod.name]
        term = {"key": "metadata.name", "operator": "NotIn", "values": [move.node]}
        self._moves += 1
        name = f"{move.pod.name.partition('.')[0]}.{self._moves}"
        spec = {**old["spec"], "affinity": {
            **old["spec"].get("affinity", {}),
            "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [term]}]}},
        }}  # fmt: skip
        del spec["nodeName"]
        new = typed({**old, "metadata": {**old["metadata"], "name": name}, "spec": spec})
        world = self._world()
        placement = decide(PROFILE, PROFILE.view(world.pod_info(new), world, NOW), self._rng)
        if isinstance(placement, Rejection):
            return False
        placed = {**old["spec"], "nodeName": placement.node}
        del self.pods[move.pod.name]
        self.pods[name] = {**old, "metadata": {**old["metadata"], "name": name}, "spec": placed}
        return True


def planned(cluster, configuration):
    simulation = Simulation(cluster.objects(), SETTINGS, predicting_profiles(), NOW)
    return [move for move in plan_moves(simulation, configuration) if move is not None]


@pytest.mark.parametrize("number", range(rounds(40)))
def test_repeated_descheduling_comes_to_rest(number):
    random = Random(1000 * SEED + number)
    cluster = Cluster(random)
    names = random.sample(list(POLICIES), random.randint(1, len(POLICIES)))
    configuration = configured(*sorted(names, key=list(POLICIES).index), LowNodeLoad=LOAD)
    total = len(cluster.pods)
    for _cycle in range(CYCLES):
        moves = planned(cluster, configuration)
        if not moves:
            break
        for count, move in enumerate(moves[: random.randint(1, len(moves))]):
            # Equal nodes are chosen at random, so a later pod may find that its room is taken.
            assert cluster.carry_out(move) or count, move
    else:
        pytest.fail(f"after {CYCLES} cycles pods still move: {moves}")
    assert len(cluster.pods) == total


@pytest.mark.parametrize("number", range(rounds(60)))
def test_low_node_load_never_makes_more_nodes_full(number):
    random = Random(1000 * SEED + number)
    cluster = Cluster(random)
    configuration = configured("LowNodeLoad", LowNodeLoad=LOAD)
    for _cycle in range(CYCLES):
        before = cluster.over()
        moves = planned(cluster, configuration)
        if not moves:
            break
        assert {move.node for move in moves} <= before
        for count, move in enumerate(moves[: random.randint(1, len(moves))]):
            assert cluster.carry_out(move) or count, move
            assert cluster.over() <= before, move
    else:
        pytest.fail(f"after {CYCLES} cycles pods still move")
