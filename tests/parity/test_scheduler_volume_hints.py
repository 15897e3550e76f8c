"""Upstream's tables of queueing hints about volumes."""

from holdfast.api.decode import convert_object
from holdfast.scheduling.framework.plugin import ClusterEvent
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.volume_binding import VolumeBinding
from holdfast.scheduling.plugins.volume_restrictions import VolumeRestrictions
from holdfast.scheduling.plugins.volume_zone import VolumeZone
from holdfast.testing.builders import resource_of
from parity.harness import parity
from parity.scheduling import pod

PLUGINS = {plugin.name: plugin for plugin in (VolumeBinding, VolumeRestrictions, VolumeZone)}


@parity(
    "queueing_hints.jsonl",
    "TestIsSchedulableAfterCSIDriverChange", "TestIsSchedulableAfterCSINodeChange",
    "TestIsSchedulableAfterCSIStorageCapacityChange",
    "TestIsSchedulableAfterPersistentVolumeClaimChange",
    "TestIsSchedulableAfterStorageClassChange",
    "Test_isSchedulableAfterPersistentVolumeClaimChange",
    "TestIsSchedulableAfterPersistentVolumeChange",
    "TestIsSchedulableAfterPersistentVolumeClaimAdded",
    "TestIsSchedulableAfterStorageClassAdded",
)  # fmt: skip
def test_hints(record):
    old, new = (told(record, side) for side in ("old", "new"))
    action = "Add" if old is None or record.input["function"].endswith("Added") else "Update"
    assert hint(record, ClusterEvent(new.kind, action, old, new)) == wanted(record)


@parity(
    "queueing_hints.jsonl",
    "volumerestrictions/volume_restrictions_test.go:Test_isSchedulableAfterPodDeleted",
)  # fmt: skip
def test_hints_about_deleted_pods(record):
    gone = pod(record.input["oldObj"])
    assert hint(record, ClusterEvent("AssignedPod", "Delete", gone, None)) == wanted(record)


def told(record, side):
    raw = next(value for key, value in record.input.items() if key.startswith(side))
    return None if raw is None else convert_object(raw, resource_of(raw).type)


def hint(record, event):
    world = World()
    pod_info = world.pod_info(pod(record.input["pod"]))
    plugin = PLUGINS[record.input["plugin"]]({})
    return plugin.queueing_hint(event, pod_info, View(world, pod_info, 0.0))


def wanted(record):
    expected = record.expected.get("expect") or record.expected.get("expectedHint")
    return expected == "Queue"
