"""The exact messages for a pod that fits nowhere."""

from holdfast.testing import a_node, a_pod, a_storage_class, a_volume_claim, mounting
from plugins.deciding import NC, a_world, explained, outcome, small_nodes, whole_message

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


def test_S019_no_nodes_at_all():
    found = outcome(a_world(), a_pod())
    assert found.message() == "no nodes available to schedule pods"
    assert found.unschedulable_plugins == frozenset()


def test_S020_a_request_larger_than_any_node():
    world = a_world(*small_nodes(3))
    assert whole_message(world, a_pod(cpu="5")) == (
        "0/3 nodes are available: 3 Insufficient cpu. " + NC
        + "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )  # fmt: skip
    assert outcome(world, a_pod(cpu="5")).unschedulable_plugins == {"NodeResourcesFit"}


def test_S021_full_of_pods_of_the_same_priority():
    nodes = small_nodes(3)
    existing = [a_pod(f"s{i}", cpu="3500m", node=f"n{i}") for i in (1, 2, 3)]
    assert whole_message(a_world(*nodes, *existing), a_pod(cpu="1")) == (
        "0/3 nodes are available: 3 Insufficient cpu. " + NC
        + "0/3 nodes are available: 3 No preemption victims found for incoming pod."
    )  # fmt: skip


def test_S022_two_reasons():
    nodes = small_nodes(3)
    nodes[0]["spec"] = {"taints": [TAINT]}
    existing = [a_pod(f"s{i}", cpu=None, memory="8Gi", node=f"n{i}") for i in (2, 3)]
    assert whole_message(a_world(*nodes, *existing), a_pod(cpu=None, memory="1Gi")) == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient memory. "
        + NC + "0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )  # fmt: skip


def test_S023_reasons_are_sorted_as_bytes():
    nodes = small_nodes(12)
    for node in nodes[:2]:
        node["spec"] = {"unschedulable": True}
    existing = [a_pod(f"s{i}", cpu="4", node=f"n{i}") for i in range(3, 13)]
    found = outcome(a_world(*nodes, *existing), a_pod(cpu="1")).message()
    assert found == ("0/12 nodes are available: 10 Insufficient cpu, 2 node(s) were unschedulable.")


def test_S024_one_node_short_of_two_resources():
    world = a_world(*small_nodes(1), a_pod("s", cpu="4", memory="8Gi", node="n1"))
    found = outcome(world, a_pod(cpu="1", memory="1Gi")).message()
    assert found == "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."


def by_field(name):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


def test_S026_nodes_excluded_by_match_fields():
    world = a_world(*small_nodes(5), a_pod("s", cpu="4", node="n1"))
    pod = a_pod(cpu="1", affinity=by_field("n1"))
    assert outcome(world, pod).message() == (
        "0/5 nodes are available: 1 Insufficient cpu, "
        "4 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert outcome(world, pod).unschedulable_plugins == {"NodeAffinity", "NodeResourcesFit"}
    missing = outcome(world, a_pod(cpu="1", affinity=by_field("absent"))).message()
    assert missing == (
        "0/5 nodes are available: 5 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    excluded = explained(world, pod)["nodes"][1]
    assert excluded["plugin"] is None
    assert excluded["code"] == "UnschedulableAndUnresolvable"
    assert excluded["reasons"] == ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]


def test_S025_an_unbound_immediate_claim_is_unresolvable():
    claim = a_volume_claim("data", storage_class="now")
    world = a_world(*small_nodes(3), a_storage_class("now", wait=False), claim)
    assert whole_message(world, a_pod(volumes=mounting("data"))) == (
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
    )


def test_the_first_plugin_reports_a_missing_claim():
    found = outcome(a_world(*small_nodes(3)), a_pod(volumes=mounting("data")))
    assert found.unschedulable_plugins == {"VolumeRestrictions"}
    assert found.message() == ('0/3 nodes are available: persistentvolumeclaim "data" not found.')


def test_a_gated_pod_is_explained_without_nodes():
    answer = explained(
        a_world(a_node("n1")), a_pod(scheduling_gates=[{"name": "a"}, {"name": "b"}])
    )
    assert answer["preEnqueue"] == {
        "plugin": "SchedulingGates", "code": "UnschedulableAndUnresolvable",
        "reasons": ["waiting for scheduling gates: [a b]"],
    }  # fmt: skip
    assert answer["nodes"] == []
    assert answer["message"] == "waiting for scheduling gates: [a b]"
