"""Plugins that read other pods or nodes: affinity, soft spreading, images."""

import pytest

from holdfast.scheduling.framework.plugin import Placement
from holdfast.testing import a_namespace, a_node, a_pod, a_replica_set, typed
from plugins.deciding import (
    NC,
    PROFILE,
    a_world,
    explained,
    feasible_nodes,
    node_of,
    outcome,
    scores,
    whole_message,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MIB = 1 << 20


def term(app="web", key=ZONE, **more):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def required_affinity(*terms):
    return {"podAffinity": {REQUIRED: list(terms)}}


def required_anti_affinity(*terms):
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def preferred(side, *weighed):
    terms = [{"weight": weight, "podAffinityTerm": one} for weight, one in weighed]
    return {side: {PREFERRED: terms}}


def zone_nodes(*zones):
    return [a_node(f"n-{zone}", labels={ZONE: zone}) for zone in zones]


def existing(name, zone, app="web", **more):
    return a_pod(name, cpu=None, labels={"app": app}, node=f"n-{zone}", **more)


def waiting(app="web", **more):
    return a_pod("new", cpu=None, labels={"app": app}, **more)


def with_image(raw, name, size):
    raw["status"]["images"] = [{"names": [name], "sizeBytes": size}]
    return raw


def test_S046_nodes_with_the_image_score_higher():
    image = "example.com/app:1"
    half = [a_node(f"n{i}") for i in range(5)]
    world = a_world(*(with_image(n, image, 500 * MIB) for n in half[:2]), *half[2:])
    found = scores(world, a_pod(image=image), "ImageLocality")
    assert found == {"n0": 18, "n1": 18, "n2": 0, "n3": 0, "n4": 0}
    everywhere = a_world(*(with_image(a_node(f"n{i}"), image, 250 * MIB) for i in range(5)))
    two = a_pod(image=image)
    two["spec"]["containers"].append({"name": "side", "image": "example.com/other:1"})
    assert set(scores(everywhere, two, "ImageLocality").values()) == {11}


def test_an_image_on_fewer_nodes_scores_less():
    image, nodes = "example.com/app:1", [a_node(f"n{i}") for i in range(2)]
    world = a_world(*(with_image(node, image, 500 * MIB) for node in nodes))
    before = scores(world, a_pod(image=image), "ImageLocality")
    world.upsert(typed(a_node("n1")))
    after = scores(world, a_pod(image=image), "ImageLocality")
    assert before["n0"] > after["n0"] > after["n1"] == 0


def test_S050_terminating_pods_count_for_anti_affinity_and_not_for_spread():
    terminating = existing(
        "terminating", "a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}
    )
    world = a_world(*zone_nodes("a", "b"), terminating)
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term()}
    spread = waiting(topology_spread_constraints=[constraint])
    assert feasible_nodes(world, spread) == {"n-a", "n-b"}
    assert feasible_nodes(world, waiting(affinity=required_anti_affinity(term()))) == {"n-b"}


def crowded(**counts):
    pods = [existing(f"{z}{i}", z) for z, count in counts.items() for i in range(count)]
    return a_world(*zone_nodes(*counts), *pods)


def test_S051_soft_spread_over_zones():
    world = crowded(a=3, b=1, c=0)
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **term()}
    pod = waiting(topology_spread_constraints=[constraint])
    assert scores(world, pod, "PodTopologySpread") == {"n-a": 5, "n-b": 2, "n-c": 0}
    normalized = scores(world, pod, "PodTopologySpread", "normalized")
    assert normalized == {"n-a": 0, "n-b": 60, "n-c": 100}
    assert node_of(world, pod) == "n-c"


def owned(name, node=None, owner="web"):
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "u",
                 "controller": True}  # fmt: skip
    meta = {"ownerReferences": [reference]}
    return a_pod(name, cpu=None, labels={"app": "web"}, node=node, metadata=meta)


def six_nodes():
    """Three zones; pods by (host, zone): n0 (2,3), n1 (1,3), n4 (0,1)."""
    nodes = [a_node(f"n{i}", labels={ZONE: "aabccc"[i]}) for i in range(6)]
    pods = [("n0", 2), ("n1", 1), ("n2", 1), ("n3", 1)]
    return [*nodes, *(owned(f"{n}-{i}", n) for n, count in pods for i in range(count))]


def test_S052_system_default_spreading():
    world = a_world(a_replica_set("web"), *six_nodes())
    raw = scores(world, owned("new"), "PodTopologySpread")
    assert (raw["n0"], raw["n1"], raw["n4"]) == (15, 13, 8)
    normalized = scores(world, owned("new"), "PodTopologySpread", "normalized")
    assert (normalized["n0"], normalized["n1"], normalized["n4"]) == (53, 66, 100)


def test_a_service_selects_the_pods_of_default_spreading():
    spec = {"selector": {"app": "web"}}
    service = {"apiVersion": "v1", "kind": "Service", "spec": spec,
               "metadata": {"name": "s", "namespace": "default", "uid": "s"}}  # fmt: skip
    world = crowded(a=3, b=0)
    assert not any(scores(world, waiting(), "PodTopologySpread").values())
    world.upsert(typed(service))
    assert node_of(world, waiting()) == "n-b"
    assert not any(scores(world, waiting("db"), "PodTopologySpread").values())
    world.delete(typed(service))
    assert not any(scores(world, waiting(), "PodTopologySpread").values())


def test_a_pod_without_owner_and_service_is_not_spread():
    world = a_world(*six_nodes())
    assert not any(scores(world, owned("new"), "PodTopologySpread").values())


def test_S053_the_first_of_a_group_may_go_to_any_node_with_the_key():
    world = a_world(*zone_nodes("a", "b"), a_node("bare"))
    first = waiting(affinity=required_affinity(term()))
    assert feasible_nodes(world, first) == {"n-a", "n-b"}
    world.upsert(typed(existing("there", "a")))
    assert feasible_nodes(world, first) == {"n-a"}
    other = waiting("other", affinity=required_affinity(term("absent")))
    assert whole_message(world, other) == (
        "0/3 nodes are available: 3 node(s) didn't match pod affinity rules. " + NC
        + "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )  # fmt: skip


def test_S054_one_pod_must_match_both_terms():
    def labelled(name, **labels):
        return a_pod(name, cpu=None, labels=labels, node="n-a")

    both = [
        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {key: "1"}}} for key in ("x", "y")
    ]
    pod = waiting(affinity=required_affinity(*both))
    world = a_world(*zone_nodes("a"), labelled("one", x="1"), labelled("two", y="1"))
    assert feasible_nodes(world, pod) == set()
    world.upsert(typed(labelled("three", x="1", y="1")))
    assert feasible_nodes(world, pod) == {"n-a"}


def test_S055_existing_pods_anti_affinity_rejects():
    anti = existing("anti", "a", app="anti", affinity=required_anti_affinity(term()))
    world = a_world(*zone_nodes("a"), a_node("n-a2", labels={ZONE: "a"}), a_node("bare"), anti)
    assert feasible_nodes(world, waiting()) == {"bare"}
    reasons = {node["name"]: node.get("reasons") for node in explained(world, waiting())["nodes"]}
    assert reasons["n-a2"] == ["node(s) didn't satisfy existing pods anti-affinity rules"]
    assert feasible_nodes(world, waiting("db")) == {"n-a", "n-a2", "bare"}
    world.delete(typed(anti))
    assert feasible_nodes(world, waiting()) == {"n-a", "n-a2", "bare"}


def test_S056_preferred_terms_of_both_pods_count():
    pods = [existing("avoided", "a", "db"), existing("wanted", "c", "cache")]
    world = a_world(*zone_nodes("a", "b", "c"), *pods)
    affinity = preferred("podAffinity", (30, term("cache"))) | preferred(
        "podAntiAffinity", (10, term("db"))
    )
    pod = waiting(affinity=affinity)
    assert scores(world, pod, "InterPodAffinity") == {"n-a": -10, "n-b": 0, "n-c": 30}
    normalized = scores(world, pod, "InterPodAffinity", "normalized")
    assert normalized == {"n-a": 0, "n-b": 25, "n-c": 100}


def test_S056_required_affinity_of_existing_pods_scores():
    web = existing("web", "a", affinity=required_affinity(term("db")))
    world = a_world(*zone_nodes("a", "b"), web)
    assert scores(world, waiting("db"), "InterPodAffinity") == {"n-a": 1, "n-b": 0}


def test_preferred_terms_of_existing_pods_count():
    attracted = existing("attracted", "a", affinity=preferred("podAffinity", (5, term("db"))))
    repelled = existing("repelled", "b", affinity=preferred("podAntiAffinity", (7, term("db"))))
    world = a_world(*zone_nodes("a", "b", "c"), attracted, repelled)
    found = scores(world, waiting("db"), "InterPodAffinity")
    assert found == {"n-a": 5, "n-b": -7, "n-c": 0}
    assert not any(scores(world, waiting("web"), "InterPodAffinity").values())


@pytest.mark.parametrize(
    ("more", "reached"),
    [
        ({}, False),
        ({"namespaces": ["shop"]}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, False),
        ({"namespaceSelector": {}}, True),
    ],
)
def test_terms_select_other_namespaces(more, reached):
    there = existing("there", "a", namespace="shop")
    shop = a_namespace("shop", labels={"team": "x"})
    world = a_world(shop, *zone_nodes("a", "b"), there)
    avoiding = waiting(affinity=required_anti_affinity(term(**more)))
    assert feasible_nodes(world, avoiding) == ({"n-b"} if reached else {"n-a", "n-b"})


def test_new_namespace_labels_change_which_pods_match():
    there = existing("there", "a", namespace="shop")
    world = a_world(a_namespace("shop"), *zone_nodes("a", "b"), there)
    selector = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    avoiding = waiting(affinity=required_anti_affinity(term(**selector)))
    assert feasible_nodes(world, avoiding) == {"n-a", "n-b"}
    world.upsert(typed(a_namespace("shop", labels={"team": "x"})))
    assert feasible_nodes(world, avoiding) == {"n-b"}


def test_an_invalid_term_is_reported():
    bad = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "{{bad}}"}}}
    found = outcome(a_world(*zone_nodes("a")), waiting(affinity=required_anti_affinity(bad)))
    assert found.message().startswith(
        "0/1 nodes are available: parsing pod: requiredAntiAffinityTerms: values[0][app]: "
    )
    assert found.code.upstream_name == "UnschedulableAndUnresolvable"


def test_evicting_pods_can_satisfy_anti_affinity():
    world = a_world(*zone_nodes("a"), existing("there", "a", priority=1))
    pod = waiting(affinity=required_anti_affinity(term()), priority=100)
    message = whole_message(world, pod)
    assert (
        message
        == ("0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules. ").strip()
    )


def test_anti_affinity_of_nominated_pods_counts():
    world = a_world(*zone_nodes("a", "b"))
    anti = a_pod(
        "ahead",
        cpu=None,
        affinity=required_anti_affinity(term("web")),
        labels={"app": "anti"},
        status={"nominatedNodeName": "n-a"},
    )
    world.upsert(typed(anti))
    pod = waiting(affinity=required_anti_affinity(term("anti", HOST)))
    assert node_of(world, pod) == "n-b"


def test_one_pod_a_host_until_hosts_run_out():
    world = a_world(*(a_node(f"n{i}") for i in range(3)))
    pods = [
        a_pod(
            f"p{i}",
            cpu=None,
            labels={"app": "web"},
            affinity=required_anti_affinity(term(key=HOST)),
        )
        for i in range(4)
    ]
    seen = set()
    for pod in pods[:3]:
        found = outcome(world, pod)
        assert isinstance(found, Placement)
        world.assume(found.pod, found.row)
        seen.add(found.node)
    assert seen == {"n0", "n1", "n2"}
    refused = outcome(world, pods[3])
    assert refused.message() == (
        "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."
    )
    assert PROFILE.weight("InterPodAffinity") == 2


@pytest.mark.parametrize(("rack", "fits"), (({}, True), ({"rack": "r"}, False)))
def test_terms_of_nominated_pods_count_only_beside_other_terms(rack, fits):
    """Upstream skips the plugin if the terms of existing pods are in no domain."""
    away, next_node = required_anti_affinity(term(key="rack")), {"nominatedNodeName": "n-b"}
    world = a_world(
        a_node("n-b", labels={ZONE: "b"}),
        a_node("old", pods="1", labels=rack),
        a_pod("there", cpu=None, node="old", labels={"app": "web"}, affinity=away),
        a_pod("next", cpu=None, affinity=required_anti_affinity(term()), status=next_node),
    )
    assert isinstance(outcome(world, waiting()), Placement) is fits
