"""Filters and scores in whole decisions, with the numbers of the scenarios."""

from holdfast.scheduling.engine.explanation import explain
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.plugins import REGISTRY
from holdfast.testing import a_device_class, a_node, a_pod, a_reservation, a_slice, typed
from plugins.deciding import (
    a_world,
    explained,
    feasible_nodes,
    node_of,
    outcome,
    scores,
    small_nodes,
)

ZONE = "topology.kubernetes.io/zone"
LEAST, BALANCED = "NodeResourcesFit", "NodeResourcesBalancedAllocation"


def half_used():
    """Node n1 empty, n2 with 2000m and 2Gi taken."""
    return a_world(*small_nodes(2), a_pod("s", cpu="2", memory="2Gi", node="n2"))


def test_S034_least_allocated():
    pod = a_pod(cpu="500m", memory="1Gi")
    assert scores(half_used(), pod, LEAST) == {"n1": 87, "n2": 49}
    assert node_of(half_used(), pod) == "n1"


def test_S035_balanced_allocation():
    pod = a_pod(cpu="500m", memory="1Gi")
    assert scores(half_used(), pod, BALANCED) == {"n1": 75, "n2": 75}
    empty = a_world(*small_nodes(1))
    assert scores(empty, a_pod(cpu="2", memory="1Gi"), BALANCED) == {"n1": 65}


def test_S036_a_pod_without_requests():
    pod = a_pod(cpu=None)
    world = half_used()
    assert scores(world, pod, LEAST)["n1"] == 97
    assert scores(world, pod, BALANCED) == {"n1": None, "n2": None}
    full = a_world(*small_nodes(1), a_pod("s", cpu="4", memory="8Gi", node="n1"))
    assert node_of(full, pod) == "n1"


def test_S037_requested_to_capacity_ratio():
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    strategy = {
        "type": "RequestedToCapacityRatio", "resources": [{"name": "cpu"}, {"name": "memory"}],
        "requestedToCapacityRatio": {"shape": shape},
    }  # fmt: skip
    profile = build_profile("p", REGISTRY, args={LEAST: {"scoringStrategy": strategy}})

    answer = explain(profile, typed(a_pod(cpu="500m", memory="1Gi")), half_used(), 0.0)
    assert answer["nodes"][1]["scores"][LEAST]["raw"] == 50


def test_S038_too_many_pods():
    world = a_world(a_node("n1", pods="1"), a_pod("s", cpu=None, node="n1"))
    found = outcome(world, a_pod(cpu=None))
    assert found.message() == "0/1 nodes are available: 1 Too many pods."
    assert found.codes.tolist() == [1]
    world.delete(typed(a_pod("s", cpu=None, node="n1")))
    assert node_of(world, a_pod(cpu=None)) == "n1"


def test_S041_ignored_resource_groups():
    pod = a_pod(requests={"example.com/x": "5"})
    found = outcome(a_world(a_node("n1")), pod)
    assert found.message() == "0/1 nodes are available: 1 Insufficient example.com/x."
    assert found.codes.tolist() == [2]
    profile = build_profile("p", REGISTRY, args={LEAST: {"ignoredResourceGroups": ["example.com"]}})
    assert node_of(a_world(a_node("n1")), pod, profile) == "n1"


def with_port(name, ip="", protocol="TCP", **more):
    pod = a_pod(name, **more)
    port = {"hostPort": 80, "containerPort": 80, "protocol": protocol, "hostIP": ip}
    pod["spec"]["containers"][0]["ports"] = [port]
    return pod


def test_S042_host_ports():
    everywhere = a_world(a_node("n1"), with_port("s", "0.0.0.0", node="n1"))
    assert not hasattr(outcome(everywhere, with_port("p", "10.0.0.1")), "node")
    assert node_of(everywhere, with_port("p", protocol="UDP")) == "n1"
    one = a_world(a_node("n1"), with_port("s", "10.0.0.1", node="n1"))
    assert node_of(one, with_port("p", "10.0.0.2")) == "n1"
    words = outcome(one, with_port("p")).message()
    assert words == (
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    )


def needs(operator, *values):
    expression = {"key": "size", "operator": operator, "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_S043_greater_than():
    world = a_world(
        a_node("ten", labels={"size": "10"}), a_node("eight", labels={"size": "8"}),
        a_node("word", labels={"size": "x"}), a_node("none"),
    )  # fmt: skip
    assert feasible_nodes(world, a_pod(affinity=needs("Gt", "8"))) == {"ten"}


def test_S044_preferred_node_affinity():
    def wish(weight, value):
        expression = {"key": "k", "operator": "In", "values": [value]}
        return {"weight": weight, "preference": {"matchExpressions": [expression]}}

    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [wish(20, "a"), wish(80, "b")]
        }
    }
    world = a_world(
        a_node("none"), a_node("first", labels={"k": "a"}), a_node("second", labels={"k": "b"})
    )
    pod = a_pod(affinity=affinity)
    assert scores(world, pod, "NodeAffinity") == {"none": 0, "first": 20, "second": 80}
    normalized = scores(world, pod, "NodeAffinity", "normalized")
    assert normalized == {"none": 0, "first": 25, "second": 100}
    assert scores(world, pod, "NodeAffinity", "weighted")["second"] == 200


def test_S045_prefer_no_schedule_taints():
    def taint(key):
        return {"key": key, "effect": "PreferNoSchedule"}

    world = a_world(
        a_node("clean"), a_node("one", taints=[taint("a")]),
        a_node("two", taints=[taint("a"), taint("b")]),
    )  # fmt: skip
    normalized = scores(world, a_pod(), "TaintToleration", "normalized")
    assert normalized == {"clean": 100, "one": 50, "two": 0}
    assert scores(world, a_pod(), "TaintToleration", "weighted")["clean"] == 300


def spread(max_skew=1, **more):
    return [
        {
            "maxSkew": max_skew, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}, **more,
        }
    ]  # fmt: skip


def in_zones(**counts):
    objects = []
    for zone, count in counts.items():
        objects.append(a_node(f"n-{zone}", labels={ZONE: zone}))
        objects += [
            a_pod(f"{zone}{i}", cpu=None, labels={"app": "web"}, node=f"n-{zone}")
            for i in range(count)
        ]
    return objects


def a_web_pod(**more):
    return a_pod("new", cpu=None, labels={"app": "web"}, **more)


def test_S047_hard_spread_over_zones():
    world = a_world(*in_zones(a=3, b=1, c=0))
    pod = a_web_pod(topology_spread_constraints=spread())
    assert feasible_nodes(world, pod) == {"n-c"}
    world.upsert(typed(a_pod("c0", cpu=None, labels={"app": "web"}, node="n-c")))
    assert feasible_nodes(world, pod) == {"n-b", "n-c"}


def test_S048_min_domains():
    world = a_world(*in_zones(a=1, b=1))
    pod = a_web_pod(topology_spread_constraints=spread(minDomains=3))
    assert feasible_nodes(world, pod) == set()
    world.upsert(typed(a_node("n-c", labels={ZONE: "c"})))
    assert feasible_nodes(world, pod) == {"n-c"}


def test_S049_node_taints_policy():
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    objects = in_zones(a=1, b=1)
    objects.append(a_node("n-c", labels={ZONE: "c"}, taints=[taint]))
    world = a_world(*objects)
    honor = a_web_pod(topology_spread_constraints=spread(nodeTaintsPolicy="Honor"))
    ignore = a_web_pod(topology_spread_constraints=spread(nodeTaintsPolicy="Ignore"))
    assert feasible_nodes(world, honor) == {"n-a", "n-b"}
    assert feasible_nodes(world, ignore) == set()


def test_a_pod_goes_to_its_nominated_node():
    world = half_used()
    pod = a_pod(cpu="500m", status={"nominatedNodeName": "n2"})
    assert node_of(world, pod) == "n2"
    assert explained(world, pod)["best"] == ["n2"]


def test_nominated_pods_of_equal_priority_keep_their_resources():
    world = a_world(*small_nodes(1))
    ahead = typed(a_pod("ahead", cpu="3", status={"nominatedNodeName": "n1"}))
    world.upsert(ahead)
    assert "Insufficient cpu" in outcome(world, a_pod(cpu="2")).message()
    assert node_of(world, a_pod(cpu="2", priority=1000)) == "n1"
    assert node_of(world, a_pod("ahead", cpu="3")) == "n1"


def test_a_bound_pod_is_explained_as_if_unbound():
    world = a_world(*small_nodes(1), a_pod("p", cpu="4", node="n1"))
    answer = explained(world, a_pod("p", cpu="4", node="n1"))
    assert answer["schedulable"]
    assert answer["best"] == ["n1"]


def test_an_owner_may_request_devices_beside_its_reservation():
    gpu = a_device_class("gpu")
    gpu["spec"]["extendedResourceName"] = "example.com/gpu"
    held = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4"}}
    owners = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
    reservation = a_reservation("r", owners=owners, status=held)
    pod = a_pod(cpu="4", labels={"app": "web"}, requests={"example.com/gpu": "1"})
    world = a_world(a_node("n", cpu="4"), reservation)
    words = "0/1 nodes are available: 1 Insufficient example.com/gpu by node."
    assert outcome(world, pod).message() == words
    world.upsert(typed(gpu))
    world.upsert(typed(a_slice("s", node="n")))
    assert node_of(world, pod) == "n"
    own = a_node("n", cpu="4", allocatable={"example.com/gpu": "2"})
    many = a_pod(cpu="4", labels={"app": "web"}, requests={"example.com/gpu": "3"})
    world.upsert(typed(own))
    assert node_of(world, pod) == "n"
    assert outcome(world, many).message() == words
