"""``holdfast devices`` and what ``holdfast why`` says about devices."""

import re

import pytest

from cli.explain_requests import ask
from devices.device_cluster import counters, part
from holdfast.cli.devices import pools
from holdfast.cli.devices.choosing import Filter, choose
from holdfast.cli.devices.pools import as_data, as_text
from holdfast.cli.explanation_text import format_explanation
from holdfast.runtime.errors import Refused
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.testing import (
    a_claim,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
    a_taint_rule,
    typed,
)

DRIVER = "gpu.example.com"
TAINT = {"key": "broken", "value": "yes", "effect": "NoSchedule"}


def held(name, device, pool="n", *, pods=("user",), **result):
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": device, **result}]
    users = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    return a_claim(name, status=status, metadata={"uid": f"uid-{name}"})


GATES = FeatureGates.parse("DRADeviceTaintRules=true")


def listing(*objects, **which):
    return choose([typed(obj) for obj in objects], GATES, Filter(**which))


def rows(*objects, wide=False, **which):
    """The cells of the first table, without its head."""
    text = as_text(listing(*objects, **which), wide=wide)
    return [re.split(r"\s{3,}", line) for line in text.split("\n\n")[0].splitlines()[1:]]


def test_every_device_has_a_state_and_its_holders():
    shared = {"shareID": "x", "consumedCapacity": {"mem": "3"}}
    devices = [
        a_device("free"),
        a_device("used"),
        a_device("broken", taints=[TAINT]),
        a_device("some", allowMultipleAllocations=True, capacity={"mem": "4"}),
        a_device("none", allowMultipleAllocations=True, capacity={"mem": "3"}),
    ]
    claims = [held("c1", "used"), held("c2", "some", **shared), held("c3", "none", **shared)]
    found = rows(a_node("n"), a_slice(devices=devices), *claims)
    assert [row[2:] for row in found] == [
        ["free", "n", "free", "-", "-", "-", "-"],
        ["used", "n", "used", "default/c1", "user", "-", "-"],
        ["broken", "n", "tainted", "-", "-", "broken=yes:NoSchedule", "-"],
        ["some", "n", "shared", "default/c2", "user", "-", "mem 1 of 4"],
        ["none", "n", "full", "default/c3", "user", "-", "mem 0 of 3"],
    ]


def test_counters_block_devices_and_are_shown_with_their_pool():
    parts = [part("a", "s", "3"), part("b", "s", "2"), part("c", "s", "1")]
    objects = (
        a_node("n"),
        counters("n-counters", "s", pool="p", node="n"),
        a_slice(pool="p", slices=2, devices=parts),
        held("c1", "a", "p"),
    )
    assert [row[4] for row in rows(*objects)] == ["used", "blocked", "free"]
    assert "s/units 1 of 4" in as_text(listing(*objects), wide=False)


def test_the_flags_choose_a_part():
    objects = (
        a_node("n"),
        a_node("m", labels={"rack": "r"}),
        a_device_class(
            "big", selectors=[f'device.attributes["{DRIVER}"].?size.orValue("") == "big"']
        ),
        a_slice(devices=[a_device("g0", attributes={"size": "big"}), a_device("g1")]),
        a_slice("all", node=None, allNodes=True, driver="net.example.com"),
        a_slice(
            "rack",
            node=None,
            nodeSelector={
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r"]}]}
                ]
            },
        ),
        held("c1", "g1"),
    )

    def names(**which):
        return [(row[1], row[2]) for row in rows(*objects, **which)]

    assert names(node="m") == [("rack", "gpu-0"), ("all", "gpu-0")]
    assert names(driver="net.example.com") == [("all", "gpu-0")]
    assert names(device_class="big") == [("n", "g0")]
    assert names(namespace="default") == [("n", "g1")]
    assert names(free=True, driver=DRIVER) == [("n", "g0"), ("rack", "gpu-0")]
    with pytest.raises(Refused, match='there is no node "x": there are m, n'):
        listing(*objects, node="x")
    with pytest.raises(Refused, match='there is no device class "x": there are big'):
        listing(*objects, device_class="x")


def test_what_is_wrong_is_listed_below():
    strict = a_device_class("strict", selectors=[f'device.attributes["{DRIVER}"].size == "big"'])
    objects = (
        a_node("n"),
        strict,
        a_slice("half", slices=2, generation=3),
        held("c1", "gone"),
        a_slice("twice", node="m", devices=[a_device("x"), a_device("x")]),
    )
    assert listing(*objects).problems == [
        "pool gpu.example.com/m is invalid: duplicate device name x; its devices are not allocated",
        "pool gpu.example.com/n is incomplete: 1 of 2 slices of generation 3; its devices are not "
        "allocated",
        "node m does not exist, but slices list 2 devices there",
        "device gpu.example.com/n/gone is held by default/c1, but no slice lists it",
    ]
    assert {row[4] for row in rows(*objects)} == {"unusable"}
    [problem] = listing(*objects, device_class="strict").problems
    assert problem.startswith("class strict: selector #0: CEL runtime error: no such key")
    assert "(on 3 devices)" in problem


def test_taints_of_rules_name_the_rule():
    row = rows(a_node("n"), a_slice(), a_taint_rule("service", driver=DRIVER))[0]
    assert row[-1] == "example.com/broken:NoSchedule (rule service)"


def test_a_taint_of_a_slice_that_equals_that_of_a_rule_is_its_own():
    rule = a_taint_rule("service", pool="m")
    taint = rule["spec"]["taint"]
    objects = (
        a_node("n"),
        a_node("m"),
        a_slice(devices=[a_device("d", taints=[taint])]),
        a_slice("m-gpu", node="m", devices=[a_device("d", taints=[taint])]),
        rule,
    )
    text = "example.com/broken:NoSchedule"
    assert {row[1]: row[-1] for row in rows(*objects)} == {
        "n": text,
        "m": f"{text}, {text} (rule service)",
    }
    found = [d["taints"] for pool in as_data(listing(*objects))["pools"] for d in pool["devices"]]
    assert [[t["rule"] for t in taints] for taints in found] == [[None, "service"], [None]]


def test_a_pool_is_judged_on_each_node_as_the_search_does():
    """Two nodes have devices of one name, one of them twice; an old generation is still seen."""
    shared = {"pool": "p", "slices": 3}
    objects = (
        a_node("n"),
        a_node("m"),
        a_slice("s1", node="n", devices=[a_device("d")], **shared),
        a_slice("s2", node="m", devices=[a_device("d")], **shared),
        a_slice("s3", node="m", devices=[a_device("d")], **shared),
        a_slice("old", node="n", pool="q", devices=[a_device("o")]),
        a_slice("new", node="m", pool="q", devices=[a_device("w")], generation=2, slices=2),
    )
    assert [(row[1], row[3], row[4]) for row in rows(*objects)] == [
        ("p", "n", "free"),
        ("p", "m", "unusable"),
        ("p", "m", "unusable"),
        ("q", "m", "unusable"),
        ("q", "n", "free"),
    ]
    assert listing(*objects).problems == [
        "pool gpu.example.com/p is invalid: duplicate device name d; its devices are not allocated"
        " on m",
        "pool gpu.example.com/q is incomplete: 1 of 2 slices of generation 2; its devices are not "
        "allocated on m",
    ]


def test_many_devices_are_summed_up(monkeypatch):
    monkeypatch.setattr(pools, "MOST_DEVICES", 3)
    monkeypatch.setattr(pools, "MOST_POOLS", 2)
    nodes = [a_node(f"n{i}") for i in range(3)]
    slices = [a_slice(f"s{i}", node=f"n{i}", devices=2) for i in range(3)]
    by_pool, note = as_text(listing(*nodes, *slices[:2]), wide=False).split("\n\n")
    assert len(by_pool.splitlines()) == 3
    assert note.startswith("4 devices are not listed: --node, --driver")
    by_driver = as_text(listing(*nodes, *slices), wide=False).split("\n\n")[0]
    assert re.split(r"\s{3,}", by_driver.splitlines()[1]) == [DRIVER, "3", "6", "6", "0"]
    assert len(rows(*nodes, *slices, wide=True)) == 6


def test_the_data_has_what_the_text_has():
    [pool] = as_data(listing(a_node("n"), a_slice(devices=2), held("c1", "gpu-1")))["pools"]
    assert (pool["driver"], pool["states"]) == (DRIVER, {"free": 1, "used": 1})
    assert pool["devices"][1]["holders"] == [
        {
            "namespace": "default",
            "claim": "c1",
            "request": "r",
            "pods": ["user"],
            "adminAccess": False,
            "consumedCapacity": {},
        }
    ]


def using(claim):
    return a_pod(resource_claims=[{"name": "d", "resourceClaimName": claim}])


def why(*objects, **more):
    return format_explanation(ask(a_device_class("gpu"), *objects, **more)).splitlines()


def test_why_names_what_is_in_the_way_and_the_closest_device():
    nodes = [a_node(name) for name in ("empty", "n", "other")]
    devices = [a_device("g0"), a_device("g1", taints=[TAINT]), a_device("g2")]
    text = why(
        *nodes,
        a_slice(devices=devices),
        held("c1", "g2"),
        a_slice("other", node="other", driver="net.example.com"),
        a_claim(count=2),
        using("c"),
    )
    assert text[2:] == [
        "  claim default/c, request req-0 needs 2 devices of class gpu, at most 1 found on a node; "
        "what is in the way:",
        "      1  in use (1 device): n",
        "      1  no device is published for the node: empty",
        '      1  selector #0 of class gpu is false: device.driver == "gpu.example.com" (1 device):'
        " other",
        "      1  taint broken=yes:NoSchedule is not tolerated (1 device): n",
        "         closest: gpu.example.com/n/g1 on n, in addition to 1 of 2: taint "
        "broken=yes:NoSchedule is not tolerated",
        "         to do: let the request tolerate the taint, or remove it from the device",
    ]


def test_why_names_the_holder_and_every_alternative():
    either = [
        {"name": name, "deviceClassName": "gpu", "count": count}
        for name, count in (("two", 2), ("one", 1))
    ]
    claim = a_claim(requests=[{"name": "r", "firstAvailable": either}])
    text = why(a_node("n"), a_slice(), held("c1", "gpu-0"), claim, using("c"))
    assert [line.split(" needs ")[0] for line in text if " needs " in line] == [
        "  claim default/c, request r/two",
        "  claim default/c, request r/one",
    ]
    held_by = "in use by claim default/c1 of pod user"
    assert any(line.endswith(f"gpu.example.com/n/gpu-0 on n: {held_by}") for line in text)


def test_why_says_who_serves_an_extended_resource():
    name = "example.com/gpu"
    text = why(
        a_node("plugin", allocatable={name: "2"}),
        a_node("dra"),
        a_node("neither"),
        a_pod("full", node="plugin", requests={name: "2"}, limits={name: "2"}),
        a_device_class("gpu", extended_resource_name=name),
        a_slice(node="dra"),
        held("c1", "gpu-0", "dra"),
        a_pod(requests={name: "1"}, limits={name: "1"}),
    )
    assert text[3:] == [
        "  example.com/gpu is served by a device plugin where a node has it, else by devices of "
        "class gpu:",
        "      1  device plugin, 0 of 2 free: plugin",
        "      1  class gpu, 0 of 1 free: dra",
        "  extended resource example.com/gpu of main needs 1 device of class gpu; what is in the "
        "way:",
        "      1  in use (1 device): dra",
        "      1  no device is published for the node: neither",
        "         closest: gpu.example.com/dra/gpu-0 on dra: in use by claim default/c1 of pod "
        "user",
        "         to do: wait until a claim frees it, add devices, or give the pod a higher "
        "priority",
    ]


def test_why_shows_the_error_of_a_selector_and_where_it_fails():
    claim = a_claim(selectors=[f'device.attributes["{DRIVER}"].model == "A100"'])
    text = why(a_node("n"), a_slice(), claim, using("c"))
    assert text[0].startswith("default/p: scheduling fails: ")
    assert [line for line in text if line.startswith("      1  claim default/c: selector #0: CEL")]
    assert "to do: correct the selector" in text[-1]


def test_why_names_the_devices_and_nodes_of_an_allocated_claim():
    claim = held("c", "gpu-0", pods=(), bindingConditions=["ready"], bindingFailureConditions=["f"])
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [here]}
    objects = (a_node("n"), a_node("m"), a_slice(), using("c"))
    words = "  claim default/c has gpu.example.com/n/gpu-0, for use on n; its driver "
    assert why(*objects, claim)[2] == f"{words}has not reported ready yet"
    status = {"driver": DRIVER, "pool": "n", "device": "gpu-0"}
    status["conditions"] = [{"type": "f", "status": "True"}]
    claim["status"]["devices"] = [status]
    failed = f"{words}reports a failure, so it is deallocated and tried again"
    assert failed in why(*objects, claim)


def test_why_of_resources_that_are_served_differently_by_node():
    names = [f"example.com/{letter}" for letter in "ab"]
    classes = [
        a_device_class(
            f"class-{name[-1]}", driver=f"{name[-1]}.example.com", extendedResourceName=name
        )
        for name in names
    ]
    asked = dict.fromkeys(names, "1")
    text = why(
        a_node("both"),
        a_node("b-only", allocatable={names[0]: "1"}),
        *classes,
        a_slice("s", node="both", driver="a.example.com"),
        a_pod(requests=asked, limits=asked),
    )
    needs = "  extended resource example.com/b of main needs 1 device of class class-b; "
    at = text.index(f"{needs}what is in the way:")
    assert text[at + 1 : at + 3] == [
        "      1  no device is published for the node: b-only",
        '      1  selector #0 of class class-b is false: device.driver == "b.example.com" (1 '
        "device): both",
    ]


def test_why_leaves_devices_to_nominated_pods():
    nominated = using("mine") | {"status": {"nominatedNodeName": "n"}}
    nominated["metadata"] |= {"name": "first", "uid": "uid-first"}
    nominated["spec"]["priority"] = 10
    text = why(a_node("n"), a_slice(), a_claim("mine"), a_claim(), nominated, using("c"))
    assert "      1  free devices are left to pods that are nominated to the node: n" in text


def test_why_of_many_nodes_examines_a_sample(monkeypatch):
    monkeypatch.setattr("holdfast.scheduling.plugins.dynamic_resources.explanation.MAX_TRIES", 50)
    nodes = [a_node(f"n{i:02}") for i in range(40)]
    text = why(*nodes, a_claim(), using("c"))
    assert text[-1] == "  devices were examined on 6 of 40 nodes"


def test_why_says_what_a_pod_waits_for_before_it_is_tried():
    assert "create the claim" in why(a_node("n"), using("missing"))[1]
    text = why(a_node("n"), a_claim(device_class="nope"), using("c"))
    assert any("`kubectl get deviceclasses`" in line for line in text)
