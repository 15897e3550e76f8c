"""What stands in the way of devices, and the device that came closest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.device_cluster import Cluster, allocated_claim, counters, part
from devices.random_devices import CLAIM, CLAIMS, COUNTERS, GONE, NODES, RACK, SLICE, happen
from holdfast.state.devices.allocation_cache import DOES_NOT_FIT, FITS
from holdfast.state.devices.errors import AllocationError
from holdfast.state.devices.obstacles import find_obstacles
from holdfast.testing import a_claim, a_device, a_node, a_slice, typed
from soak_size import law

DRIVER = "gpu.example.com"
TAINT = {"key": "broken", "effect": "NoSchedule"}


def obstacles(cluster, claims, node="n", steps=1000):
    allocator = cluster.inventory.allocator([typed(claim) for claim in claims])
    found = next(n for n in cluster.of_kind("Node") if n.name == node)
    inventory = cluster.inventory
    return find_obstacles(
        allocator, found, inventory.pools_of(found), inventory.allocated_devices, steps
    )


def broken_rules(devices, *claims, more=()):
    cluster = Cluster(a_node("n"), a_slice(devices=devices), *more)
    found = obstacles(cluster, claims or [a_claim()])
    return {
        rejected.candidate.id[2]: [(o.kind.value, o.rule, o.detail) for o in rejected.obstacles]
        for rejected in found.devices
    }


def selecting(model):
    return f'device.attributes["{DRIVER}"].model == "{model}"'


def test_the_selector_that_is_false_is_named():
    devices = [a_device("t4", attributes={"model": "T4"})]
    claim = a_claim(selectors=["true", selecting("A100")])
    rule = f"selector #1 of claim default/c is false: {selecting('A100')}"
    assert broken_rules(devices, claim) == {"t4": [("selector", rule, "")]}


@pytest.mark.parametrize(
    "device, claim, expected",
    [
        (a_device(taints=[TAINT]), a_claim(), ("taint", "broken:NoSchedule is not tolerated", "")),
        (
            a_device(),
            a_claim(constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
            ("constraint", f"matchAttribute {DRIVER}/numa", f"it has no attribute {DRIVER}/numa"),
        ),
        (
            a_device(allowMultipleAllocations=True, capacity={"mem": "4"}),
            a_claim(
                requests=[
                    {
                        "name": "r",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "capacity": {"requests": {"mem": "6"}},
                        },
                    }
                ]
            ),
            ("capacity", "too little capacity", "6 of mem is needed, 4 is left"),
        ),
        (
            a_device(capacity={"mem": "4"}),
            a_claim(
                requests=[
                    {
                        "name": "r",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "capacity": {"requests": {"disk": "6"}},
                        },
                    }
                ]
            ),
            ("capacity", "too little capacity", "it has no capacity disk"),
        ),
    ],
)
def test_the_rule_and_the_amounts_are_named(device, claim, expected):
    kind, rule, detail = expected
    [(found_kind, found_rule, found_detail)] = broken_rules([device], claim)["gpu-0"]
    assert (found_kind, found_detail) == (kind, detail)
    assert rule in found_rule


def test_counters_that_other_devices_use_are_named():
    more = [counters("n-counters", "s", pool="p", node="n"), allocated_claim("other", "a", "p")]
    cluster = Cluster(
        a_node("n"),
        a_slice(pool="p", slices=2, devices=[part("a", "s", "3"), part("b", "s", "2")]),
        *more,
    )
    rejected = {r.candidate.id[2]: r.obstacles for r in obstacles(cluster, [a_claim()]).devices}
    assert [o.kind.value for o in rejected["a"]] == ["inUse", "counter"]
    [counter] = rejected["b"]
    assert (counter.rule, counter.detail) == (
        "too little is left of counter s/units",
        "2 is needed, 1 is left",
    )


def test_the_request_that_fails_is_that_after_the_ones_with_devices():
    requests = [
        {"name": name, "exactly": {"deviceClassName": "gpu"}} for name in ("first", "second")
    ]
    cluster = Cluster(a_node("n"), a_slice(devices=1))
    found = obstacles(cluster, [a_claim(requests=requests)])
    assert found.request.alternatives[0].request_name == "second"
    assert [o.rule for d in found.devices for o in d.obstacles] == [
        "chosen for another request of this pod"
    ]


def test_a_device_that_is_selected_is_closer_than_one_that_is_free():
    devices = [
        a_device("other", attributes={"model": "T4"}),
        a_device("near", attributes={"model": "A100"}, taints=[TAINT]),
    ]
    cluster = Cluster(a_node("n"), a_slice(devices=devices), allocated_claim("c2", "near", "n"))
    found = obstacles(cluster, [a_claim(selectors=[selecting("A100")])])
    closest = min(found.devices, key=lambda device: device.distance)
    assert closest.candidate.id[2] == "near"
    assert [o.kind.value for o in closest.obstacles] == ["inUse", "taint"]


def test_a_search_that_is_cut_short_has_its_reasons():
    devices = [a_device(f"d{i}", taints=[TAINT]) for i in range(20)]
    found = obstacles(Cluster(a_node("n"), a_slice(devices=devices)), [a_claim()], steps=5)
    assert not found.complete
    assert found.devices[0].obstacles[0].kind == "taint"


@law(40)
@given(st.lists(st.one_of(SLICE, SLICE, COUNTERS, CLAIM, GONE), max_size=12))
def test_there_are_obstacles_exactly_where_the_claims_do_not_fit(events):
    cluster = Cluster(*(a_node(name, labels={RACK: "r"}) for name in NODES))
    for event in events:
        happen(cluster, event)
    for claims in CLAIMS:
        for node, code in cluster.codes(*claims).items():
            found = obstacles(cluster, claims, node, steps=0)
            assert (found is None) == (code == FITS)
            if found is None:
                continue
            assert all(rejected.obstacles for rejected in found.devices)
            if code == DOES_NOT_FIT and not found.found and not found.pools:
                tried = {rejected.candidate.id for rejected in found.devices}
                here = next(n for n in cluster.of_kind("Node") if n.name == node)
                pools = cluster.inventory.pools_of(here)
                published = {c.id for pool in pools for c in pool.candidates}
                # Mode All needs every device: those that break no rule are not in the way.
                needs_all = claims[0]["metadata"]["name"] == "all"
                assert tried <= published if needs_all else tried == published


def test_errors_of_selectors_are_kept():
    cluster = Cluster(a_node("n"), a_slice(devices=1))
    found = obstacles(cluster, [a_claim(selectors=[selecting("A100")])])
    assert found.error.startswith("claim default/c: selector #0: CEL runtime error")
    with pytest.raises(AllocationError):
        cluster.inventory.allocator([typed(a_claim(device_class="missing"))])
