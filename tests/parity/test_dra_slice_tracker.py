"""The slice tracker: taints of DeviceTaintRules, whatever the order of the events."""

from itertools import permutations

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.devices import DeviceClass, DeviceTaintRule, ResourceSlice
from holdfast.state.devices.slice_tracker import SliceTracker
from parity.harness import parity

TYPES = {
    "ResourceSlice": ResourceSlice,
    "DeviceTaintRule": DeviceTaintRule,
    "DeviceClass": DeviceClass,  # changes nothing
}
MOST_ORDERS = 720


def typed(raw):
    return raw and convert_object(raw, TYPES[raw["kind"]])


def apply(tracker, patched, old, new):
    """Apply one event, and store the slices that it changes as a scheduler does."""
    changed = []
    match new or old:
        case ResourceSlice():
            if new is None:
                tracker.delete_slice(old.name)
                patched.pop(old.name, None)
            else:
                changed = [tracker.upsert_slice(new)]
        case DeviceTaintRule():
            changed = tracker.delete_rule(old.name) if new is None else tracker.upsert_rule(new)
    patched.update((each.name, each) for each in changed)


def is_pair(event):
    return len(event) == 2 and not any(isinstance(part, list) for part in event)


@parity("dra_slice_tracker.jsonl", "TestListPatchedResourceSlices")
def test_slices_have_the_taints_of_rules(record):
    events = [[e] if is_pair(e) else e for e in record.input["events"]]
    expected = {
        raw["metadata"]["name"]: typed(raw)
        for raw in record.expected["expectedPatchedSlices"] or ()
    }
    groups = [[(typed(old), typed(new)) for old, new in group] for group in events]
    for count, order in enumerate(permutations(groups)):
        if count == MOST_ORDERS:
            break
        tracker, patched = SliceTracker(), {}
        for old, new in (pair for group in order for pair in group):
            apply(tracker, patched, old, new)
        assert {name: msgspec.to_builtins(one.spec) for name, one in patched.items()} == {
            name: msgspec.to_builtins(one.spec) for name, one in expected.items()
        }
    assert not record.expected.get("unhandledErrors")
