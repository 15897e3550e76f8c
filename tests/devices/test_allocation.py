"""Allocation of claims through the inventory."""

import pytest

from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.errors import AllocationError, NodeAllocationError
from holdfast.state.devices.features import Features
from holdfast.state.devices.inventory import Inventory
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_slice, typed

NUMA = "gpu.example.com/numa"


def allocate(*objects, node=None, features=None):
    """Allocate all claims among the objects on one node."""
    inventory = Inventory(NodeTable(), features or Features())
    claims = []
    for raw in (a_device_class("gpu"), *objects):
        obj = typed(raw)
        inventory.upsert(obj)
        if raw["kind"] == "ResourceClaim" and obj.status.allocation is None:
            claims.append(obj)
    target = typed(node or a_node("n"))
    allocator = inventory.allocator(claims)
    found = allocator.solve(target, inventory.pools_of(target), inventory.allocated_devices)
    return found and allocator.write(found, target.name)


def devices_of(allocations):
    return [(r.request, r.device) for a in allocations for r in a.devices.results]


def request(name, count=1, *, selectors=(), **fields):
    body = {
        "deviceClassName": "gpu", "count": count,
        "selectors": [{"cel": {"expression": one}} for one in selectors],
    }  # fmt: skip
    return {"name": name, "exactly": body | fields}


def sized(*sizes, **fields):
    return [a_device(f"d{i}", attributes={"size": s}, **fields) for i, s in enumerate(sizes)]


def at_least(size):
    return [f'device.attributes["gpu.example.com"].size >= {size}']


def allocated_claim(name, *devices, driver="gpu.example.com", pool="n", **fields):
    results = [
        {"request": "req-0", "driver": driver, "pool": pool, "device": device} | fields
        for device in devices
    ]
    return a_claim(name, status={"allocation": {"devices": {"results": results}}})


def test_one_claim_gets_the_first_free_device():
    found = allocate(a_slice(devices=3), allocated_claim("other", "gpu-0"), a_claim())
    assert devices_of(found) == [("req-0", "gpu-1")]
    [allocation] = found
    [term] = allocation.node_selector.node_selector_terms
    assert term.match_fields[0].values == ("n",)


def test_D026_the_search_backtracks_for_a_larger_request():
    requests = [request("small", selectors=at_least(1)), request("large", selectors=at_least(2))]
    found = allocate(a_slice(devices=sized(2, 1)), a_claim(requests=requests))
    assert devices_of(found) == [("small", "d1"), ("large", "d0")]


def test_the_search_backtracks_over_claims_of_one_pod():
    found = allocate(
        a_slice(devices=sized(2, 1)), a_claim("a"), a_claim("b", selectors=at_least(2))
    )
    assert devices_of(found) == [("req-0", "d1"), ("req-0", "d0")]


def test_D027_only_the_newest_generation_counts_and_only_if_complete():
    old = a_slice("old", pool="p", generation=1, devices=2)
    assert allocate(old, a_slice("new", pool="p", generation=2, slices=2), a_claim()) is None
    found = allocate(old, a_slice("new", pool="p", generation=2, devices=sized(1)), a_claim())
    assert devices_of(found) == [("req-0", "d0")]


def test_D027_mode_all_with_an_incomplete_pool_is_an_error():
    wish = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    with pytest.raises(
        AllocationError, match=r"pool gpu\.example\.com/n is currently being updated"
    ):
        allocate(a_slice(slices=2), a_claim(requests=[wish]))


def test_D028_an_invalid_pool_is_skipped_or_reported():
    twice = [a_device("same"), a_device("same")]
    broken = a_slice("broken", pool="a", devices=twice)
    assert devices_of(allocate(broken, a_slice("fine", pool="b"), a_claim())) == [
        ("req-0", "gpu-0")
    ]
    with pytest.raises(NodeAllocationError, match="invalid resource pools were encountered"):
        allocate(broken, a_claim())


def test_D029_a_newer_generation_on_another_node_hides_the_old_slice():
    here = a_slice("here", node="n", pool="p", generation=1, slices=2)
    there = a_slice("there", node="m", pool="p", generation=2, slices=1)
    assert allocate(here, there, a_claim()) is None


def test_D030_pools_and_slices_are_searched_by_name():
    slices = [
        a_slice("s2", pool="b", devices=[a_device("second")]),
        a_slice("s1", pool="a", devices=[a_device("first")]),
    ]
    assert devices_of(allocate(*slices, a_claim())) == [("req-0", "first")]
    # In a pool by the name of the slice, in a slice as listed.
    parts = [
        a_slice("z", pool="a", slices=2, devices=[a_device("a")]),
        a_slice("y", pool="a", slices=2, devices=[a_device("c"), a_device("b")]),
    ]
    found = devices_of(allocate(*parts, a_claim(count=3)))
    assert [device for _, device in found] == ["c", "b", "a"]
    late = a_device("first", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    slices[1] = a_slice("s1", pool="a", devices=[late])
    assert devices_of(allocate(*slices, a_claim())) == [("req-0", "second")]


def test_D031_mode_all_allocates_every_matching_device():
    wish = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    assert len(devices_of(allocate(a_slice(devices=3), a_claim(requests=[wish])))) == 3
    taken = allocated_claim("other", "gpu-1")
    assert allocate(a_slice(devices=3), taken, a_claim(requests=[wish])) is None
    wish["exactly"]["adminAccess"] = True
    found = allocate(a_slice(devices=3), taken, a_claim(requests=[wish]))
    assert [r.admin_access for a in found for r in a.devices.results] == [True] * 3


def test_D032_mode_all_without_matching_devices_fails():
    wish = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    assert allocate(a_claim(requests=[wish])) is None
    wish = request("r", allocationMode="All", selectors=at_least(2))
    assert allocate(a_slice(devices=sized(1, 1)), a_claim(requests=[wish])) is None
    found = allocate(a_slice(devices=sized(1, 2)), a_claim(requests=[wish]))
    assert devices_of(found) == [("r", "d1")]


def test_D033_a_claim_has_at_most_32_devices():
    assert len(devices_of(allocate(a_slice(devices=40), a_claim(count=32)))) == 32
    with pytest.raises(AllocationError, match="33 exceeds the claim limit of 32"):
        allocate(a_slice(devices=40), a_claim(count=33))


def test_a_negative_count_is_an_error_and_no_search():
    with pytest.raises(AllocationError, match="request req-0: exact count -1 is negative"):
        allocate(a_slice(devices=40), a_claim(count=-1))


def first_available(*alternatives):
    subs = [
        {"name": name, "deviceClassName": "gpu", "count": count} for name, count in alternatives
    ]
    return {"name": "r", "firstAvailable": subs}


def test_D034_the_second_subrequest_is_used_if_the_first_does_not_fit():
    wish = first_available(("big", 3), ("small", 1))
    found = allocate(a_slice(devices=2), a_claim(requests=[wish]))
    assert devices_of(found) == [("r/small", "gpu-0")]


def test_D035_the_search_backtracks_to_another_subrequest():
    wish = first_available(("big", 2), ("small", 1))
    found = allocate(a_slice(devices=2), a_claim(requests=[wish, request("other")]))
    assert devices_of(found) == [("r/small", "gpu-0"), ("other", "gpu-1")]


def numa(*values):
    return [a_device(f"d{i}", attributes={"numa": v}) for i, v in enumerate(values)]


def test_D036_matching_devices_share_a_value_of_one_type():
    claim = a_claim(count=2, constraints=[{"matchAttribute": NUMA}])
    assert devices_of(allocate(a_slice(devices=numa(0, 1, 1)), claim)) == [
        ("req-0", "d1"),
        ("req-0", "d2"),
    ]
    assert allocate(a_slice(devices=numa(1, "1")), claim) is None
    requests, constraint = [request("a"), request("b")], {"matchAttribute": NUMA}
    for named in ({}, {"requests": ["a", "b"]}):
        claim = a_claim(requests=requests, constraints=[constraint | named])
        found = allocate(a_slice(devices=numa(0, 1, 1)), claim)
        assert devices_of(found) == [("a", "d1"), ("b", "d2")]
    claim = a_claim(requests=requests, constraints=[constraint | {"requests": ["a"]}])
    found = allocate(a_slice(devices=numa(0, 1, 1)), claim)
    assert devices_of(found) == [("a", "d0"), ("b", "d1")]


def test_D037_distinct_devices_share_no_value_even_within_one_request():
    requests = [request("a"), request("b")]
    claim = a_claim(requests=requests, constraints=[{"distinctAttribute": NUMA}])
    assert devices_of(allocate(a_slice(devices=numa(0, 0, 1)), claim)) == [("a", "d0"), ("b", "d2")]
    claim = a_claim(count=3, constraints=[{"distinctAttribute": NUMA}])
    assert allocate(a_slice(devices=numa(0, 1, 0)), claim) is None


def in_rings(*rings):
    return a_slice(
        devices=[a_device(f"d{i}", attributes={"ring": {"ints": r}}) for i, r in enumerate(rings)]
    )


def test_D036_with_list_attributes_one_common_value_is_enough():
    rings, lists = in_rings([0, 1], [1, 2], [2]), Features(list_attributes=True)

    def matching(count):
        return a_claim(count=count, constraints=[{"matchAttribute": "gpu.example.com/ring"}])

    found = allocate(rings, matching(2), features=lists)
    assert devices_of(found) == [("req-0", "d0"), ("req-0", "d1")]
    assert allocate(rings, matching(3), features=lists) is None
    # Without the feature a list cannot be read.
    with pytest.raises(AllocationError, match="attribute ring: unsupported attribute value"):
        allocate(rings, matching(2))


def test_D037_with_list_attributes_no_value_is_common():
    claim = a_claim(count=2, constraints=[{"distinctAttribute": "gpu.example.com/ring"}])
    rings, lists = in_rings([0, 1], [1, 2], [2]), Features(list_attributes=True)
    found = allocate(rings, claim, features=lists)
    assert devices_of(found) == [("req-0", "d0"), ("req-0", "d2")]


def test_D041_devices_of_one_slice_may_be_for_different_nodes():
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r"]}]}]
    shared = a_slice(
        "shared",
        node=None,
        pool="p",
        perDeviceNodeSelection=True,
        devices=[
            a_device("other", nodeName="m"),
            a_device("mine", nodeName="n"),
            a_device("near", nodeSelector={"nodeSelectorTerms": terms}),
            a_device("any", allNodes=True),
        ],
    )
    assert devices_of(allocate(shared, a_claim())) == [("req-0", "mine")]
    assert allocate(shared, a_claim(count=3)) is None
    rack = a_node("n", labels={"rack": "r"})
    found = allocate(shared, a_claim(count=3), node=rack)
    assert [device for _, device in devices_of(found)] == ["mine", "near", "any"]
    here = found[0].node_selector.node_selector_terms[0].match_fields[0]
    assert (here.key, here.values) == ("metadata.name", ("n",))
    elsewhere = a_node("x", labels={"rack": "r"})
    [found] = allocate(shared, a_claim(count=2), node=elsewhere)
    [term] = found.node_selector.node_selector_terms
    assert [r.key for r in term.match_expressions] == ["rack"]


def partition(name, amount):
    counters = [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]
    return a_device(name, consumesCounters=counters)


def test_D038_partitions_of_a_device_share_counters_across_nodes():
    counters = a_slice(
        "counters", node=None, pool="p", slices=3, devices=[], allNodes=True,
        sharedCounters=[{"name": "card", "counters": {"memory": {"value": "40Gi"}}}],
    )  # fmt: skip
    del counters["spec"]["devices"]
    here = a_slice("here", pool="p", slices=3, devices=[partition("whole", "40Gi"),
                                                       partition("half", "20Gi")])  # fmt: skip
    there = a_slice("there", node="m", pool="p", slices=3, devices=[partition("far", "20Gi")])
    cluster = (counters, here, there)
    assert devices_of(allocate(*cluster, a_claim())) == [("req-0", "whole")]
    assert allocate(*cluster, a_claim(count=2)) is None
    far = allocated_claim("other", "far", pool="p")
    assert devices_of(allocate(*cluster, far, a_claim())) == [("req-0", "half")]


def shareable(value, **policy):
    capacity = {"memory": {"value": value} | ({"requestPolicy": policy} if policy else {})}
    return a_device("card", capacity=capacity, allowMultipleAllocations=True)


def share(name, amount):
    wish = request("r", capacity={"requests": {"memory": amount}})
    return a_claim(name, requests=[wish])


def test_D039_shares_do_not_exceed_the_capacity():
    card = a_slice(devices=[shareable("10Gi")])
    found = allocate(card, share("a", "4Gi"), share("b", "4Gi"))
    results = [r for a in found for r in a.devices.results]
    assert [r.consumed_capacity for r in results] == [{"memory": "4Gi"}] * 2
    assert len({r.share_id for r in results}) == 2
    assert allocate(card, share("a", "4Gi"), share("b", "4Gi"), share("c", "4Gi")) is None


def test_D039_a_share_is_rounded_up_to_a_step():
    card = shareable("10Gi", default="2Gi", validRange={"min": "2Gi", "step": "2Gi"})
    [allocation] = allocate(a_slice(devices=[card]), share("a", "5Gi"))
    assert allocation.devices.results[0].consumed_capacity == {"memory": "6Gi"}


def tainted(effect):
    return a_device("d", taints=[{"key": "broken", "value": "", "effect": effect}])


@pytest.mark.parametrize(
    ("effect", "blocked"), [("NoSchedule", True), ("None", False), ("OfAnotherServer", False)]
)
def test_D040_tainted_devices_are_not_allocated(effect, blocked):
    assert (allocate(a_slice(devices=[tainted(effect)]), a_claim()) is None) == blocked


def test_D040_a_tolerated_device_is_allocated_with_the_toleration_copied():
    wish = request("r", tolerations=[{"key": "broken", "operator": "Exists"}])
    [allocation] = allocate(a_slice(devices=[tainted("NoExecute")]), a_claim(requests=[wish]))
    [result] = allocation.devices.results
    assert [t.key for t in result.tolerations] == ["broken"]


def test_D041_the_allocation_has_the_node_selector_of_its_devices():
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    far = a_slice(
        "far", node=None, pool="far",
        nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [zone]}]},
    )  # fmt: skip
    node = a_node("n", labels={"zone": "a"})
    [allocation] = allocate(far, a_claim(), node=node)
    [term] = allocation.node_selector.node_selector_terms
    assert term.match_expressions[0].values == ("a",)
    assert allocate(far, a_claim(), node=a_node("n", labels={"zone": "b"})) is None
    [mixed] = allocate(far, a_slice("near"), a_claim(count=2), node=node)
    [term] = mixed.node_selector.node_selector_terms
    assert not term.match_expressions
    assert term.match_fields[0].key == "metadata.name"


def test_D042_the_allocation_has_the_configuration_of_class_and_claim():
    opaque = {"driver": "gpu.example.com", "parameters": {"mode": "fast"}}
    claim = a_claim(requests=[request("a"), request("b"), first_available(("x", 9), ("y", 1))])
    claim["spec"]["devices"]["config"] = [
        {"opaque": opaque, "requests": ["r/x"]},
        {"opaque": opaque, "requests": ["r/y"]},
        {"opaque": opaque},
    ]
    class_ = a_device_class("gpu", config=[{"opaque": opaque}])
    [allocation] = allocate(class_, a_slice(devices=3), claim)
    told = [(c["source"], c.get("requests")) for c in allocation.devices.config]
    assert told == [
        ("FromClass", ["a", "b", "r/y"]), ("FromClaim", ["r/y"]), ("FromClaim", None),
    ]  # fmt: skip


def test_devices_with_binding_conditions_are_ignored_without_the_feature():
    late = a_device("d", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    features = Features(binding_conditions=False)
    assert allocate(a_slice(devices=[late]), a_claim(), features=features) is None
