"""Plans of ResourceSlices: pure functions of the inventory and of what is stored."""

import copy

import pytest

from holdfast.driver import Capacity, CounterSet, Device, InvalidInventory, Taint, Version
from holdfast.node.driverkit.inventory import pools_of, raw_device
from holdfast.node.driverkit.slices import (
    SliceOwner,
    check_pools,
    content_of,
    contents_of,
    plan_pool,
)

OWNER = SliceOwner("gpu.example.com", "n", "node-uid")


def devices(count, first=0, **fields):
    return [Device(f"gpu-{i}", **fields) for i in range(first, first + count)]


def stored(plan, before=(), number=0):
    """What the server has after a plan: names, uids and the times of taints are its own."""
    kept = {raw["metadata"]["name"]: raw for raw in before if raw not in plan.delete}
    kept |= {raw["metadata"]["name"]: copy.deepcopy(raw) for raw in plan.update}
    for i, raw in enumerate(copy.deepcopy(plan.create)):
        meta = raw["metadata"]
        meta["name"] = f"{meta.pop('generateName')}{number}{i}"
        meta["uid"] = meta["name"]
        kept[meta["name"]] = raw
    for raw in kept.values():
        for device in raw["spec"].get("devices", ()):
            for taint in device.get("taints", ()):
                taint.setdefault("timeAdded", f"time-{number}")
    return list(kept.values())


def plan(items, before=(), accepted=None):
    return plan_pool(OWNER, "n", contents_of(items), list(before), accepted or {})


def generations(slices):
    return sorted(
        (
            raw["metadata"]["name"][:5],
            raw["spec"]["pool"]["generation"],
            raw["spec"]["pool"]["resourceSliceCount"],
        )
        for raw in slices
    )


def test_the_first_slices_have_generation_1_and_names_in_order():
    first = plan([CounterSet("c", {"memory": "8Gi"}), *devices(200)])
    names = [raw["metadata"]["generateName"] for raw in first.create]
    assert names == [f"0000{i}-gpu.example.com-n-" for i in range(3)]
    assert [list(content_of(raw)) for raw in first.create] == [
        ["sharedCounters"],
        ["devices"],
        ["devices"],
    ]
    assert [len(raw["spec"].get("devices", ())) for raw in first.create] == [0, 128, 72]
    assert generations(stored(first)) == [("00000", 1, 3), ("00001", 1, 3), ("00002", 1, 3)]
    reference = first.create[0]["metadata"]["ownerReferences"][0]
    assert (reference["kind"], reference["uid"], reference["controller"]) == (
        "Node",
        "node-uid",
        True,
    )
    assert not plan([CounterSet("c", {"memory": "8Gi"}), *devices(200)], stored(first))


def test_no_devices_make_one_empty_slice():
    assert [content_of(raw) for raw in plan([]).create] == [{}]


def test_devices_with_taints_are_divided_in_smaller_slices():
    tainted = [*devices(65), Device("bad", taints=[Taint("example.com/x")])]
    assert [len(raw["spec"]["devices"]) for raw in plan(tainted).create] == [64, 2]


@pytest.mark.parametrize(
    ("before", "after", "written", "expected"),
    [
        (130, [*devices(129), Device("new")], (0, 1, 0), [1, 1]),
        (130, [Device("new"), *devices(128, 1), Device("new-2")], (0, 2, 0), [2, 2]),
        (130, devices(300), (0, 2, 1), [2, 2, 2]),
        (130, devices(10), (1, 1, 0), [1]),
        (300, devices(130), (1, 2, 0), [2, 2]),
        (130, [], (1, 1, 0), [1]),
    ],
)
def test_the_generation_is_kept_for_one_update_without_creation(before, after, written, expected):
    old = stored(plan(devices(before)))
    found = plan(after, old)
    assert (len(found.delete), len(found.update), len(found.create)) == written
    new = stored(found, old, 1)
    assert [generation for _, generation, _ in generations(new)] == expected
    assert {count for *_, count in generations(new)} == {len(new)}
    assert not plan(after, new)


def test_foreign_old_and_double_slices_are_deleted_first():
    good = stored(plan(devices(130)))
    old = copy.deepcopy(good[0])
    old["metadata"]["name"] = "00000-old"
    old["spec"]["pool"]["generation"] = 0
    double = copy.deepcopy(good[0])
    double["metadata"]["name"] += "x"
    other = copy.deepcopy(good[1])
    other["metadata"] |= {"name": "by-hand"}
    found = plan(devices(130), [old, double, other, *good])
    assert found.delete == [double, old, other]
    assert not (found.update or found.create)


def test_slices_of_a_deleted_node_of_the_same_name_are_replaced():
    old = stored(plan(devices(1)))
    found = plan_pool(
        SliceOwner("gpu.example.com", "n", "new"), "n", contents_of(devices(1)), old, {}
    )
    assert (found.delete, len(found.create)) == (old, 1)
    assert found.create[0]["spec"]["pool"]["generation"] == 2


def test_a_taint_keeps_the_time_at_which_it_was_added():
    taint = Taint("example.com/broken", effect="NoExecute")
    old = stored(plan(devices(1, taints=[taint])))
    assert not plan(devices(1, taints=[taint]), old)
    found = plan(devices(1, taints=[taint, Taint("example.com/hot")]), old)
    [raw] = stored(found, old, 1)
    assert [t["timeAdded"] for t in raw["spec"]["devices"][0]["taints"]] == ["time-0", "time-1"]


def test_fields_that_the_server_dropped_are_not_written_again():
    old = stored(plan(devices(1, attributes={"x": [1, 2]})))
    sent = copy.deepcopy(content_of(old[0]))
    del old[0]["spec"]["devices"][0]["attributes"]
    wanted = devices(1, attributes={"x": [1, 2]})
    assert plan(wanted, old)
    assert not plan(wanted, old, {old[0]["metadata"]["name"]: (sent, content_of(old[0]))})


def test_values_get_the_form_of_the_api():
    device = Device(
        "gpu-0",
        attributes={"a": True, "b": 3, "c": "x", "d": Version("1.2.3"), "e": ["x", "y"]},
        capacity={"m": "1024Mi", "n": 3, "s": Capacity("8Gi", default=1, minimum="1", step="1")},
        consumes={"gpu": {"memory": "2Gi"}},
        taints=[Taint("k", "v")],
        shareable=True,
    )
    assert type(raw_device(device)["attributes"]["d"]["version"]) is str
    assert raw_device(device) == {
        "name": "gpu-0",
        "attributes": {
            "a": {"bool": True},
            "b": {"int": 3},
            "c": {"string": "x"},
            "d": {"version": "1.2.3"},
            "e": {"strings": ["x", "y"]},
        },
        "capacity": {
            "m": {"value": "1Gi"},
            "n": {"value": "3"},
            "s": {
                "value": "8Gi",
                "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}},
            },
        },
        "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "2Gi"}}}],
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "allowMultipleAllocations": True,
    }


@pytest.mark.parametrize(
    ("inventory", "message"),
    [
        (None, "must be a list of Device, not None"),
        ("gpu-0", "must be a list of Device, not 'gpu-0'"),
        (["gpu-0"], "item 0 of pool n must be a Device, not 'gpu-0'"),
        ([Device("a"), Device("a")], 'two devices have the name "a"'),
        ([Device("A")], 'device "A": name: Invalid value'),
        ([Device("a", attributes={"x": 1.5})], 'device "a": attributes[x]: must be a bool'),
        ([Device("a", attributes={"x": [1, "y"]})], 'device "a": attributes[x]: must be a bool'),
        ([Device("a", attributes={"x y": 1})], 'device "a": attributes: Invalid value: "x y"'),
        ([Device("a", attributes={"x": Version("1.2")})], "attributes[x].version: Invalid value"),
        ([Device("a", attributes={"x": "y" * 65})], "attributes[x].string: Too long"),
        ([Device("a", capacity={"m": "8 GB"})], "device \"a\": capacity[m]: '8 GB': "),
        ([Device("a", capacity={"m": True})], 'device "a": capacity[m]: must be an amount'),
        ([Device("a", capacity={"m": Capacity(1, default=1)})], "allowMultipleAllocations"),
        ([Device("a", consumes={"c": {"m": 1}})], "consumes[c]: there is no such counter set"),
        (
            [CounterSet("c", {"m": 1}), Device("a", consumes={"c": {"n": 1}})],
            "consumes[c][n]: the counter set has no such counter",
        ),
        ([CounterSet("c", {"m": 1}), CounterSet("c", {"m": 1})], "two counter sets have the name"),
        ([Device("a", taints=[Taint("k", effect="Never")])], 'device "a": taints[0].effect'),
        ([Device(7)], 'device "7": name: must be a str'),
        ([Device("a", ["x"])], 'device "a": attributes: must be a dict'),
        ([Device("a", consumes={"c": 1})], "consumes[c]: must be a dict of amounts, not 1"),
        ([Device("a", taints=["broken"])], "taints: must be a list of Taint, not 'broken'"),
        ({"a//b": [Device("a")]}, "pool a//b: spec.pool.name: Invalid value"),
    ],
)
def test_a_wrong_inventory_is_refused_with_device_and_field(inventory, message):
    with pytest.raises(InvalidInventory) as wrong:
        pools = pools_of(inventory, "n")
        check_pools(OWNER, {name: contents_of(items) for name, items in pools.items()})
    assert message in str(wrong.value)
