"""Preemption in whole decisions: the chosen node and victims; nothing is evicted."""

import pytest

from holdfast.api.reservation_names import ALLOCATED
from holdfast.api.scheme import DISRUPTION_BUDGETS, NAMESPACES
from holdfast.scheduling.engine.post_filter import run_post_filter_plugins
from holdfast.scheduling.framework.values import RequiredResources
from holdfast.scheduling.plugins.default_preemption import plugin
from holdfast.scheduling.plugins.default_preemption.dry_run_columns import dry_run_cache_of
from holdfast.scheduling.plugins.default_preemption.ranking import CostColumns
from holdfast.state.columns.interner import CPU
from holdfast.testing import a_node, a_pod, a_reservation, typed
from holdfast.testing.builders import an_object
from plugins.deciding import PROFILE, a_world, outcome, small_nodes


def started(seconds):
    return {"startTime": f"2026-01-01T00:00:{seconds:02}Z", "phase": "Running"}


def plan(world, pod):
    return run_post_filter_plugins(PROFILE, outcome(world, pod), world, 1.8e9)


def victims(effect):
    return sorted(pod.name for pod in effect.victims)


def test_S057_the_node_with_the_cheapest_victims():
    def on(node, priority, count):
        share = 4000 // count
        return [
            a_pod(f"{node}-{i}", cpu=f"{share}m", priority=priority, node=node)
            for i in range(count)
        ]

    world = a_world(*small_nodes(3), *on("n1", 5, 2), *on("n2", 3, 4), *on("n3", 3, 1))
    effect = plan(world, a_pod(cpu="4", priority=10))
    assert effect.nominated_node == "n3"
    assert effect.tied_nodes == ("n3",)
    assert {c.node for c in effect.candidates} == {"n1", "n2", "n3"}


def test_S057_the_latest_start_decides_between_equal_nodes():
    world = a_world(
        *small_nodes(2),
        a_pod("old", cpu="4", node="n1", status=started(1)),
        a_pod("young", cpu="4", node="n2", status=started(30)),
    )
    assert plan(world, a_pod(cpu="4", priority=10)).nominated_node == "n2"


KEPT = {
    "lower": lambda dry_run_columns: dry_run_columns.lower,
    "short": lambda dry_run_columns: dry_run_columns.short,
    "no_victims_needed": lambda dry_run_columns: dry_run_columns.no_victims_needed,
    "victim_bits": lambda dry_run_columns: dry_run_columns.victim_bits,
    "weight": lambda dry_run_columns: dry_run_columns.costs.weight,
    "total": lambda dry_run_columns: dry_run_columns.costs.total,
    "start": lambda dry_run_columns: dry_run_columns.costs.start,
}


@pytest.mark.parametrize("column", KEPT)
def test_a_wrong_stored_value_is_a_fault(column):
    nodes = [a_node(f"n{i}", cpu="4") for i in range(80)]
    pods = [a_pod(f"p{i}", cpu="2", node=f"n{i // 2}", status=started(i // 4)) for i in range(160)]
    world = a_world(*nodes, *pods)
    needs = RequiredResources(((CPU, 3000),))
    dry_run_columns = dry_run_cache_of(world).of(10, needs)
    world.upsert(typed(a_pod("more", cpu="1", node="n7")))
    assert dry_run_cache_of(world).of(10, needs) is dry_run_columns
    assert list(dry_run_columns.faults(1.8e9)) == []
    kept = KEPT[column](dry_run_columns)
    for row in (3, 7):  # one of many tried at once, one tried alone
        right = kept[row].copy()
        kept[row] = right + 1
        assert list(dry_run_columns.faults(1.8e9)), row
        kept[row] = right
    assert list(dry_run_columns.faults(1.8e9)) == []


def test_wrong_cheapest_rows_are_a_fault():
    costs = CostColumns(4)
    for row in range(4):
        costs.put(row, 0, [row], 1.0)
    costs.keep_cheapest_rows(4)
    assert list(costs.faults(4)) == []
    costs.put(1, 0, [7, 7], 2.0)
    assert list(costs.faults(4)) == []
    costs.weight[2] -= 1
    assert list(costs.faults(4)) == ["4 rows are kept, 4 are below the bound"]
    costs.weight[2] += 1
    costs.total[3] += 2**14
    assert "more victims than fit" in next(costs.faults(4))


def test_S058_victims_are_reprieved_greedily():
    def world(two_starts, one_starts):
        return a_world(
            *small_nodes(1),
            a_pod("two", cpu="2", priority=1, node="n1", status=started(two_starts)),
            a_pod("one", cpu="1", priority=1, node="n1", status=started(one_starts)),
            a_pod("low", cpu="1", priority=0, node="n1", status=started(5)),
        )

    preemptor = a_pod(cpu="2", priority=10)
    assert victims(plan(world(1, 30), preemptor)) == ["low", "one"]
    assert victims(plan(world(30, 1), preemptor)) == ["two"]


def a_budget(allowed):
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    made = an_object(DISRUPTION_BUDGETS, "pdb", spec, namespace="default")
    return made | {"status": {"disruptionsAllowed": allowed}}


def test_S059_budgets_are_respected_if_possible():
    equal = [
        a_pod(f"w{i}", cpu="1", labels={"app": "web"}, node="n1", status=started(i))
        for i in (1, 2, 3)
    ]
    world = a_world(*small_nodes(1), *equal, a_budget(1))
    effect = plan(world, a_pod(cpu="2", priority=10))
    # The second and third are beyond the budget and are let back first; the first has to go.
    assert victims(effect) == ["w1"]
    assert effect.candidates[0].violations == 0


def test_S059_a_violated_budget_outweighs_any_priority():
    world = a_world(
        *small_nodes(2), a_budget(0),
        a_pod("guarded", cpu="4", priority=0, labels={"app": "web"}, node="n1"),
        a_pod("dear", cpu="4", priority=9, node="n2"),
    )  # fmt: skip
    effect = plan(world, a_pod(cpu="4", priority=10))
    assert effect.nominated_node == "n2"
    assert {c.node: c.violations for c in effect.candidates} == {"n1": 1, "n2": 0}


def test_without_lower_priority_pods_no_node_is_dry_run(monkeypatch):
    pods = [a_pod(f"on-{i}", cpu="4", node=f"n{i}", priority=7) for i in (1, 2)]
    world, words = a_world(*small_nodes(2), *pods), "2 No preemption victims found"
    monkeypatch.setattr(plugin, "CandidateSearch", None)
    assert words in plan(world, a_pod(cpu="4", priority=7)).message
    world.delete(typed(pods[0]))
    world.upsert(typed(a_pod("low", cpu="4", node="n1", priority=6)))
    monkeypatch.undo()
    assert victims(plan(world, a_pod(cpu="4", priority=7))) == ["low"]
    assert victims(plan(world.fork(), a_pod(cpu="4", priority=7))) == ["low"]


def a_held_room(cpu, **spec):
    raw = a_reservation(
        "r",
        owners=[{"labelSelector": {"matchLabels": {"app": "web"}}}],
        allocate_once=False,
        **spec,
    )
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": cpu}}
    return raw | {"status": status}


def an_owner(name, cpu):
    taken = '{"name": "r", "uid": "uid-reservation--r"}'
    return a_pod(name, cpu=cpu, node="n1", labels={"app": "web"}, annotations={ALLOCATED: taken})


def test_what_an_evicted_owner_used_stays_reserved():
    world = a_world(*small_nodes(1), a_held_room("4"), an_owner("owner", "4"))
    stranger = plan(world, a_pod("stranger", cpu="4", priority=10))
    assert (stranger.victims, stranger.nominated_node) == ((), "")
    assert "1 node(s) preemption failed due to insufficient resources" in stranger.message
    other = plan(world, a_pod("other", cpu="4", priority=10, labels={"app": "web"}))
    assert victims(other) == ["owner"]


def test_what_an_evicted_owner_used_beyond_its_reservation_is_freed():
    world = a_world(*small_nodes(1), a_held_room("2"), an_owner("owner", "4"))
    assert victims(plan(world, a_pod("stranger", cpu="2", priority=10))) == ["owner"]
    assert plan(world, a_pod("stranger", cpu="3", priority=10)).victims == ()
    assert victims(plan(world, a_pod(cpu="4", priority=10, labels={"app": "web"}))) == ["owner"]


def test_a_pod_slot_of_an_evicted_owner_stays_reserved():
    nodes = small_nodes(1, pods="1")
    world = a_world(*nodes, a_held_room("1"), an_owner("owner", "1"))
    assert plan(world, a_pod("stranger", cpu="1", priority=10)).victims == ()


def test_preemption_policy_never_is_reported():
    world = a_world(*small_nodes(1), a_pod("s", cpu="4", node="n1"))
    effect = plan(world, a_pod(cpu="4", priority=10, preemption_policy="Never"))
    assert "preemption: not eligible due to preemptionPolicy=Never." in effect.message
    assert effect.nominated_node is None


def test_spread_is_checked_without_the_victims():
    zone = "topology.kubernetes.io/zone"
    constraint = {
        "maxSkew": 1, "topologyKey": zone, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    nodes = small_nodes(2)
    for node, name in zip(nodes, "ab", strict=True):
        node["metadata"]["labels"][zone] = name
    web = {"cpu": "100m", "labels": {"app": "web"}}
    world = a_world(
        *nodes, a_pod("full", cpu="4", priority=1000, node="n2"),
        a_pod("w1", node="n1", priority=0, **web),
    )  # fmt: skip
    pod = a_pod("new", priority=10, topology_spread_constraints=[constraint], **web)
    effect = plan(world, pod)
    assert effect.nominated_node == "n1"
    assert victims(effect) == ["w1"]
    assert typed(pod).spec.priority == 10


def test_relabelling_a_namespace_recomputes_victims():
    """Even if the number of conflicting pods is the same."""

    def in_team(name, team):
        made = an_object(NAMESPACES, name, {}, namespace="")
        return made | {"metadata": {**made["metadata"], "labels": {"team": team}}}

    far = {
        "labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {"matchLabels": {"team": "x"}},
    }  # fmt: skip
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [far]}}
    world = a_world(
        *small_nodes(1), in_team("one", "x"), in_team("two", "y"),
        a_pod("first", cpu="1", node="n1", namespace="one", labels={"app": "a"}),
        a_pod("second", cpu="1", node="n1", namespace="two", labels={"app": "a"}),
    )  # fmt: skip
    preemptor = a_pod(cpu="1", priority=10, affinity=apart)
    assert victims(plan(world, preemptor)) == ["first"]
    world.upsert(typed(in_team("one", "y")))
    world.upsert(typed(in_team("two", "x")))
    assert victims(plan(world, preemptor)) == ["second"]


def test_many_resources_in_the_cluster():
    sorts = [f"example.com/r{i}" for i in range(65)]
    one_each = dict.fromkeys(sorts, "1")
    world = a_world(
        a_node("n1", allocatable=one_each), a_pod("low", cpu="1", node="n1", requests=one_each)
    )
    for sort in sorts:
        assert victims(plan(world, a_pod(cpu="1", priority=10, requests={sort: "1"}))) == ["low"]
    wanted = a_pod(cpu="1", priority=10, requests={sorts[0]: "1"})
    port = {"hostPort": 80, "containerPort": 80, "protocol": "TCP"}
    wanted["spec"]["containers"][0]["ports"] = [port]
    assert victims(plan(world, wanted)) == ["low"]


def test_many_resources_in_one_request():
    sorts = [f"example.com/r{i}" for i in range(70)]
    one_each = dict.fromkeys(sorts, "1")
    world = a_world(
        a_node("n1", cpu="2", allocatable=one_each), a_pod("low", cpu="2", node="n1"),
        a_pod("high", node="n1", priority=100, requests={sorts[-1]: "1"}),
    )  # fmt: skip
    wanted = a_pod("wanted", cpu="1", priority=10, requests=one_each)
    assert not plan(world, wanted).nominated_node
    world.upsert(typed(a_pod("one", node="n1")))
    assert not plan(world, wanted).nominated_node
    world.delete(typed(a_pod("high", node="n1", priority=100)))
    assert victims(plan(world, wanted)) == ["low"]
