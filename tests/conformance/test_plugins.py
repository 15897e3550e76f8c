"""Every registered plugin passes the conformance suite; a plugin with a fault does not."""

import numpy as np
import pytest

from conformance.faulty_plugins import with_plan
from holdfast.scheduling.framework.plugin import NO_CHANGE, Scope, Traits
from holdfast.scheduling.plugins import REGISTRY
from holdfast.scheduling.plugins.balanced_allocation import BalancedAllocation
from holdfast.scheduling.plugins.node_resources_fit import NodeResourcesFit
from holdfast.scheduling.plugins.node_resources_fit.plugin import FitPlan
from holdfast.scheduling.plugins.pod_topology_spread import PodTopologySpread
from holdfast.scheduling.plugins.pod_topology_spread.soft_constraints import SoftConstraints
from holdfast.scheduling.plugins.taint_toleration import TaintToleration, ToleratedTaints
from holdfast.state.columns.journal import FEW_ROWS, Journal
from holdfast.testing import a_claim, a_device_class, a_pod, a_replica_set, a_slice, typed
from holdfast.testing.classic_dra.random_claims import a_pod_with_classic_claims
from holdfast.testing.conformance import check_plugin
from holdfast.testing.random_cluster import HOST, ZONE
from soak_size import SEED, TIMES, rounds


@pytest.mark.parametrize("entry", REGISTRY, ids=lambda entry: entry.name)
def test_registered_plugin_conforms(entry):
    check_plugin(lambda: entry.factory({}), seed=SEED, clusters=rounds(2))


def one_pod():
    """Return the same pod every time, so that cached results are used."""
    known = {}
    return lambda cluster: known.setdefault(id(cluster), cluster.a_waiting_pod())


@pytest.mark.parametrize("entry", REGISTRY, ids=lambda entry: entry.name)
def test_registered_plugin_conforms_on_many_nodes(entry):
    make = lambda: entry.factory({})  # noqa: E731
    check_plugin(make, pods=one_pod(), seed=SEED + 1, clusters=TIMES, steps=12, nodes=100)


def test_changed_rows_are_passed_as_arrays(monkeypatch):
    arrays = []
    stale = Journal.stale

    def seen(journal, cursor, size):
        rows = stale(journal, cursor, size)
        if isinstance(rows, np.ndarray):
            arrays.append(len(rows))
        return rows

    monkeypatch.setattr(Journal, "stale", seen)
    fit = lambda: NodeResourcesFit({})  # noqa: E731
    check_plugin(fit, pods=one_pod(), seed=3, clusters=2, steps=16, nodes=100)
    assert len(arrays) > 1
    assert all(FEW_ROWS < rows <= 30 for rows in arrays)


SPREAD = ((1, ZONE), (2, HOST))
VOLUME_PLUGINS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")


def with_volumes(cluster):
    pod = cluster.a_waiting_pod()
    while not pod.spec.volumes or any(volume.ephemeral is not None for volume in pod.spec.volumes):
        pod = cluster.a_waiting_pod()
    return pod


@pytest.mark.parametrize("name", VOLUME_PLUGINS)
def test_volume_plugins_conform(name):
    entry = next(entry for entry in REGISTRY if entry.name == name)
    make = lambda: entry.factory({})  # noqa: E731
    check_plugin(make, pods=with_volumes, seed=SEED + 7, clusters=TIMES, steps=40)


def test_classic_claims_conform():
    entry = next(entry for entry in REGISTRY if entry.name == "ClassicDynamicResources")
    pods = a_pod_with_classic_claims
    check_plugin(lambda: entry.factory({}), pods=pods, seed=SEED, clusters=3 * TIMES, steps=60)


def softly_spread(cluster):
    """A pod spread over hosts and zones, by its own or default constraints."""
    labels = {"app": cluster.random.choice("abc")}
    if cluster.random.random() < 0.5:
        replicas = typed(a_replica_set(f"of-{labels['app']}", labels=labels))
        cluster.furniture[replicas.kind, replicas.key] = replicas
        cluster.world.upsert(replicas)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replicas.name, "uid": "u",
                 "controller": True}  # fmt: skip
        return typed(a_pod("p", labels=labels, metadata={"ownerReferences": [owner]}))
    soft = {"whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": labels}}
    constraints = [{"maxSkew": skew, "topologyKey": key, **soft} for skew, key in SPREAD]
    return typed(a_pod("p", labels=labels, topology_spread_constraints=constraints))


def test_a_score_table_equals_normalized_scores(monkeypatch):
    tables = []
    score_table = SoftConstraints.score_table
    monkeypatch.setattr(
        SoftConstraints, "score_table", lambda *a: tables.append(score_table(*a)) or tables[-1]
    )
    make = lambda: PodTopologySpread({})  # noqa: E731
    check_plugin(make, pods=softly_spread, seed=SEED + 3, clusters=2 * TIMES, steps=40)
    assert sum(found is not None for found in tables) > 50, "the table was hardly used"


GPU = "example.com/gpu"
SERVED = [{"name": name, "weight": 1} for name in ("cpu", "memory", GPU)]
SHAPE = {"shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]}
WITH_DEVICES = {
    "least": lambda: NodeResourcesFit(
        {"scoringStrategy": {"type": "LeastAllocated", "resources": SERVED}}
    ),
    "most": lambda: NodeResourcesFit(
        {"scoringStrategy": {"type": "MostAllocated", "resources": SERVED}}
    ),
    "ratio": lambda: NodeResourcesFit(
        {"scoringStrategy": {
            "type": "RequestedToCapacityRatio", "resources": SERVED,
            "requestedToCapacityRatio": SHAPE,
        }}
    ),
    "balanced": lambda: BalancedAllocation({"resources": SERVED}),
}  # fmt: skip


def with_devices(cluster):
    """A pod that requests devices, in a cluster whose slices and claims change."""
    random, others, step = cluster.random, cluster.others, cluster.step

    def tell(obj):
        others[obj.kind, obj.name] = obj
        cluster.world.upsert(obj)

    def device_step():
        step()
        node = random.choice([*cluster.nodes, None])
        pool = node or "shared"
        result = {
            "request": "req-0", "driver": "gpu.example.com", "pool": pool,
            "device": f"gpu-{random.randrange(4)}",
        }  # fmt: skip
        held = {"allocation": {"devices": {"results": [result]}}}
        happening = random.randrange(8)
        if happening == 0:
            tell(typed(a_device_class(extended_resource_name=GPU)))
        elif happening < 4:
            spec = {} if node else {"all_nodes": True}
            devices = random.randrange(5)
            tell(typed(a_slice(f"{pool}-gpu", node=node, pool=pool, devices=devices, **spec)))
        elif happening < 7:
            tell(typed(a_claim(f"c-{len(others)}-{random.random()}", status=held)))

    if not any(kind == "DeviceClass" for kind, _ in others):
        tell(typed(a_device_class(extended_resource_name=GPU)))
        cluster.step = device_step
    return typed(a_pod(f"asks-{random.random()}", cpu="100m", requests={GPU: "1"}))


@pytest.mark.parametrize("name", WITH_DEVICES)
def test_scores_of_resources_served_by_devices_conform(name):
    make = WITH_DEVICES[name]
    check_plugin(make, pods=with_devices, seed=SEED + 3, clusters=TIMES, steps=40)


class ForgetsRequests(FitPlan):
    """``filter_row`` uses an empty request."""

    __slots__ = ()

    def filter_row(self, row, change=NO_CHANGE):
        return super().filter_row(row, change) if change else 0


class ForgetsScores(FitPlan):
    """``score_row`` is not that of the strategy."""

    __slots__ = ()

    def score_row(self, row):
        return 0.0


class DependsOnOtherRows(FitPlan):
    """The result of a row depends on the other rows."""

    __slots__ = ()

    def score(self, rows):
        raw = super().score(rows)
        return np.floor(raw / max(1, len(raw)))


class ModifiesColumns(FitPlan):
    """Modifies a column."""

    __slots__ = ()

    def filter(self, rows, change=NO_CHANGE):
        self.fit.needs[0].free[0] += 1
        return super().filter(rows, change)


class IgnoresChanges(FitPlan):
    """Ignores hypothetical pods."""

    __slots__ = ()

    def filter(self, rows, change=NO_CHANGE):
        return super().filter(rows)


class IgnoresTaintSets(ToleratedTaints):
    """Scores every taint set like the first one."""

    __slots__ = ()

    def score(self, rows):
        self.update()
        return self.unwanted.take(np.zeros_like(self.nodes.taint_set[rows]))


class WithoutReasons(ToleratedTaints):
    """Rejects without reasons."""

    __slots__ = ()

    def reasons(self, row, change=NO_CHANGE):
        return ()


class ReadsWhatItSaysItIgnores(NodeResourcesFit):
    """Reads requests, but declares ``ignores_requests``."""

    traits = Traits(scope=Scope.ROW, ignores_requests=True)


@pytest.mark.parametrize(
    ("plugin", "plan", "law"),
    [
        (NodeResourcesFit, ForgetsRequests, "incremental equals full|filter_row equals filter$"),
        (NodeResourcesFit, ForgetsScores, "incremental equals full|score_row equals score"),
        (NodeResourcesFit, DependsOnOtherRows, "invariance|incremental"),
        (NodeResourcesFit, ModifiesColumns, "inputs unchanged|what would be"),
        (
            NodeResourcesFit,
            IgnoresChanges,
            "verdicts with a change equal those after it|filter_row equals filter",
        ),
        (TaintToleration, IgnoresTaintSets, "score_row equals score|incremental equals full"),
        (TaintToleration, WithoutReasons, "a rejection has reasons"),
    ],
)
def test_a_faulty_plan_is_found(plugin, plan, law):
    with pytest.raises(AssertionError, match=law):
        check_plugin(lambda: with_plan(plugin, plan)({}))


def test_a_faulty_plugin_is_found():
    with pytest.raises(AssertionError, match="reads ignores requests"):
        check_plugin(lambda: ReadsWhatItSaysItIgnores({}))
