"""DeviceTaintRules: the slices that the allocator sees."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.decode import convert_object
from holdfast.api.devices import DeviceTaintRule, ResourceSlice
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.inventory import Inventory
from holdfast.state.devices.slice_tracker import SliceTracker
from holdfast.testing import a_device, a_slice, a_taint_rule
from soak_size import law

NAMES = st.sampled_from("abc")
SELECTOR = st.fixed_dictionaries(
    {},
    optional={
        "driver": st.sampled_from(("x.example.com", "y.example.com")),
        "pool": NAMES,
        "device": NAMES,
    },
)


def rule(name, **fields):
    return convert_object(a_taint_rule(name, **fields), DeviceTaintRule)


def slice_of(name, driver="x.example.com", pool="a", devices="ab"):
    raw = a_slice(name, driver=driver, pool=pool, devices=[a_device(d) for d in devices])
    return convert_object(raw, ResourceSlice)


events = st.one_of(
    st.builds(lambda n, s: ("rule", rule(n, **s)), NAMES, SELECTOR),
    st.builds(lambda n: ("no rule", n), NAMES),
    st.builds(
        lambda name, driver, pool, devices: ("slice", slice_of(name, driver, pool, devices)),
        NAMES,
        st.sampled_from(("x.example.com", "y.example.com")),
        NAMES,
        st.lists(NAMES, unique=True, max_size=3),
    ),
    st.builds(lambda n: ("no slice", n), NAMES),
)


@law(60)
@given(st.lists(events, max_size=12))
def test_events_one_by_one_equal_all_at_once(changes):
    tracker, seen = SliceTracker(), {}
    rules, slices = {}, {}
    for kind, obj in changes:
        changed = []
        match kind:
            case "rule":
                rules[obj.name] = obj
                changed = tracker.upsert_rule(obj)
            case "no rule":
                rules.pop(obj, None)
                changed = tracker.delete_rule(obj)
            case "slice":
                slices[obj.name] = obj
                changed = [tracker.upsert_slice(obj)]
            case _:
                slices.pop(obj, None)
                seen.pop(obj, None)
                tracker.delete_slice(obj)
        seen.update((each.name, each) for each in changed)
    fresh = SliceTracker()
    for each in rules.values():
        assert fresh.upsert_rule(each) == []
    assert seen == {name: fresh.upsert_slice(one) for name, one in slices.items()}


def test_taints_of_rules_follow_those_of_the_driver_in_the_order_of_rule_names():
    tracker = SliceTracker()
    for name in ("z", "a"):
        tracker.upsert_rule(rule(name, key=f"example.com/{name}"))
    raw = a_slice("s", devices=[{"name": "d", "taints": [{"key": "own", "effect": "None"}]}])
    patched = tracker.upsert_slice(convert_object(raw, ResourceSlice))
    keys = [taint.key for taint in patched.spec.devices[0].taints]
    assert keys == ["own", "example.com/a", "example.com/z"]


def test_the_inventory_has_tainted_devices_and_a_fork_its_own_rules():
    inventory = Inventory(NodeTable())
    inventory.upsert(slice_of("s"))
    inventory.upsert(rule("r", device="a"))

    def taints(of):
        [info] = of.slices
        return [len(candidate.device.taints) for candidate in info.candidates]

    assert taints(inventory) == [1, 0]
    copy = inventory.fork(NodeTable())
    copy.delete(rule("r", device="a"))
    assert (taints(copy), taints(inventory)) == ([0, 0], [1, 0])
    # A rule whose spec is unchanged (say, a new status) changes nothing.
    [before] = inventory.slices
    inventory.upsert(rule("r", device="a"))
    assert list(inventory.slices) == [before]
    inventory.upsert(rule("r", pool="other"))
    assert taints(inventory) == [0, 0]
