"""Koordinator's tables of DeviceShare that need a cluster: filter, reserve, events of objects."""

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.reservation import Reservation
from holdfast.api.shared_device import SharedDevices
from holdfast.scheduling.framework.plugin import Placement, PodChange
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.device_share import DeviceShare
from holdfast.scheduling.plugins.device_share.allocator import DeviceAllocator
from holdfast.state.device_share.allocation_annotation import allocations_text, read_allocations
from holdfast.state.device_share.allocations import UNUSED, SharedDeviceAllocation, use_of
from holdfast.state.device_share.node_devices import device_ids, inventory_of
from parity.device_sharing import ALLOCATED, HINT, allocations, cached_state, device_object, use
from parity.harness import parity
from parity.reserving import ANY_OWNER, asking_for, reservation
from parity.scheduling import SUCCESS, asked, node, pod, status

FILE = "koord_deviceshare.jsonl"
NODE = "test-node"
HALF = {"koordinator.sh/gpu-memory-ratio": "50"}
ARGS = {
    "gpuShareUnsupportedModels": [{"vendor": "huawei", "model": "Ascend-310P3-300I-DUO"}],
}


class Desk:
    """A node with the devices, users, victims and reservations of a record, and the plugin."""

    def __init__(self, given):
        self.world, self.plugin, self._given = World(), DeviceShare(ARGS), given
        raw = given.get("node") or given.get("nodeInfo", {}).get("node") or {}
        self.name = raw.get("metadata", {}).get("name", NODE)
        self.world.upsert(node(raw, self.name))
        state = given.get("state") or {}
        freed = (state.get("preemptibleDevices") or {}).get(self.name)
        self.victim = self.hold("victim", use(freed)) if freed else None
        if self.shares_a_gpu:
            self.world.upsert(device_object({"deviceTotal": {"gpu": {"0": HALF}}}, self.name))
        for name, cache in (given.get("nodeDeviceCache") or {}).items():
            self.world.upsert(device_object(cache, name))
            others = cached_state(cache).used.minus(use(freed))
            for kind, minor in sorted(others.minors()):
                self.hold(f"{kind}-{minor}", others.within(frozenset(((kind, minor),))))
        if held := given.get("reserved"):
            self.reserve_devices(held)

    @property
    def shares_a_gpu(self):
        """Whether the record says so without a request and without a device."""
        state = self._given.get("state") or {}
        return (state.get("gpuRequirements") or {}).get("gpuShared") and "podRequests" not in state

    def hold(self, name, used):
        """Bind a pod that uses devices; return what the node table has of it."""
        if used == UNUSED:
            return None
        metadata = {"name": name, "uid": name, "annotations": {ALLOCATED: text_of(used)}}
        requests = {name: str(amount) for name, amount in used.resources().items()}
        raw = {"metadata": metadata, "spec": {"nodeName": self.name}}
        self.world.upsert(pod(asking_for(raw, requests)))
        return self.world.nodes.pod(name)[0]

    def reserve_devices(self, held):
        """Add a reservation whose owners may be any pods."""
        text = allocations_text(allocations(held), {})
        raw = {"metadata": {"name": "r", "annotations": {ALLOCATED: text}}, "spec": {}}
        total = {name: str(n) for name, n in use_of(allocations(held)).resources().items()}
        made = reservation(raw, owners=ANY_OWNER, where=self.name, allocatable=total)
        assert isinstance(made, Reservation)
        self.world.upsert(made)

    @property
    def change(self):
        """The removal of the victim."""
        gone = {} if self.victim is None else {self.world.nodes.row_of[self.name]: (self.victim,)}
        return PodChange(removed=gone)

    def ask(self):
        """Prepare the plugin for the pod; some records list its requests outside of it."""
        state, raw = self._given.get("state") or {}, self._given["pod"]
        requests = dict(HALF) if self.shares_a_gpu else {}
        for named in (state.get("podRequests") or {}).values():
            requests |= named
        if hints := state.get("hints"):
            notes = {HINT: msgspec.json.encode(hints).decode()}
            raw = {**raw, "metadata": {**raw["metadata"], "annotations": notes}}
        return asked(self.plugin, asking_for(raw, requests), self.world)


def text_of(used):
    """Return the annotation of a pod that uses this."""
    found = {}
    for kind, minor, amounts in used.amounts:
        vfs = tuple({"busID": bus} for of, card, bus in used.vfs if (of, card) == (kind, minor))
        found.setdefault(kind, []).append(SharedDeviceAllocation(minor, amounts, vfs))
    return allocations_text(found, {})


def agrees(found, want):
    """Tell whether code and message agree; a wanted reason may be the start of the message."""
    if found["code"] != want["code"]:
        return False
    return all(any(r in own for own in found.get("reasons", ())) for r in want.get("reasons", ()))


@parity(FILE, "Test_Plugin_Filter")
def test_filter(record):
    desk = Desk(record.input)
    prepared = desk.ask()
    assert agrees(prepared.filter(desk.name, desk.change), record.expected["want"])
    chosen = record.observed.get("allocations")
    if chosen and isinstance(prepared.prepared.plan, DeviceAllocator):
        row = desk.world.nodes.row_of[desk.name]
        found = prepared.prepared.plan.best(row, desk.change).allocations
        assert minors(found) == minors(allocations(chosen))


def minors(listed):
    return {kind: [one.minor for one in ones] for kind, ones in listed.items()}


@parity(FILE, "Test_Plugin_Reserve")
def test_reserve(record):
    desk, want = Desk(record.input), record.expected
    if desk.victim is not None:
        desk.world.delete(desk.victim.pod)  # it is gone before a pod is reserved in its place
    prepared = desk.ask().prepared
    plan = prepared.plan
    if not isinstance(plan, DeviceAllocator):
        found = SUCCESS if prepared.reject is None else status(*refusal(prepared.reject))
        assert agrees(found, want["wantStatus"])
        return
    info = desk.world.pod_info(pod(record.input["pod"], uid="incoming"))
    placement = Placement(info, desk.world.nodes.row_of[desk.name], desk.name, {})
    placement.reservation = "uid-r" if record.input.get("reserved") else ""
    rejected = plan.reserve(placement)
    found = SUCCESS if rejected is None else status(*refusal(rejected))
    assert agrees(found, want["wantStatus"])
    if "allocationResult" in want:
        assert read_allocations(placement.annotations) == allocations(want["allocationResult"])


def refusal(rejected):
    return rejected.code, rejected.reasons


@parity(FILE, "Test_Plugin_Unreserve")
def test_unreserve(record):
    desk = Desk({**record.input, "nodeDeviceCache": {}})
    ledger = desk.world.device_share
    for name, cache in (record.input.get("nodeDeviceCache") or {}).items():
        desk.world.upsert(device_object(cache, name))
    result = (record.input.get("state") or {}).get("allocationResult")
    ledger.enter("incoming", desk.name, use_of(allocations(result)))
    info = desk.world.pod_info(pod(record.input["pod"], uid="incoming"))
    world = desk.world
    plan = DeviceAllocator(world.nodes, ledger, world.reservations, world.devices, None)
    plan.unreserve(Placement(info, 0, desk.name, {}))
    assert ledger.use_of("incoming") == UNUSED
    for name, cache in (record.expected["wantCache"] or {}).items():
        state = ledger.state(ledger.signature(desk.world.nodes.row_of[name]))
        for kind, free in cache["deviceFree"].items():
            assert set(state.free(kind)) == {int(minor) for minor in free}
        assert state.used == UNUSED


@parity(FILE, "Test_Plugin_PreBind")
def test_annotation(record):
    given, want = record.input, record.expected
    found = {}
    result = (given.get("state") or {}).get("allocationResult")
    if result:
        named = {k: [{"resources": {}, **one} for one in ones] for k, ones in result.items()}
        ids = device_ids(convert_object(given["deviceCR"], SharedDevices))
        found[ALLOCATED] = allocations_text(allocations(named), ids)
    wanted = want["wantPod"]["metadata"].get("annotations", {})
    assert want["wantStatus"] == SUCCESS
    assert found.keys() == wanted.keys()
    for key, text in found.items():
        assert msgspec.json.decode(text) == msgspec.json.decode(wanted[key])


@parity(
    FILE,
    "Test_nodeDeviceCache_onDeviceAdd",
    "Test_nodeDeviceCache_onDeviceUpdate",
    "Test_nodeDeviceCache_onDeviceDelete",
)
def test_events_of_devices(record):
    """The records do not say what is cached: it is what the newest Device describes."""
    given, world = record.input, World()
    raw = given.get("newDevice") or given.get("device") or {"metadata": {"name": NODE}, "spec": {}}
    device = convert_object(raw, SharedDevices)
    world.upsert(node({}, device.name))
    for name, cache in (given.get("deviceCache") or {}).items():
        world.upsert(device_object(cache, name))
    ledger, row = world.device_share, world.nodes.row_of[device.name]
    if "onDeviceDelete" in record.test:
        world.delete(device)
        assert not ledger.has_devices(device.name)
        return
    world.upsert(device)
    assert ledger.state(ledger.signature(row)).inventory == inventory_of(device, {})


@parity(
    FILE,
    "Test_nodeDeviceCache_onPodAdd",
    "Test_nodeDeviceCache_onPodUpdate",
    "Test_nodeDeviceCache_onPodDelete",
)
def test_events_of_pods(record):
    """The records do not say what is cached: it is what the pod's annotation says, if it is bound.

    A deletion of something that is no pod, or has no last state, does not reach a ledger here.
    """
    given, world = record.input, World()
    world.upsert(node({}, NODE))
    for name, cache in (given.get("deviceCache") or {}).items():
        world.upsert(device_object(cache, name))
    known = None
    for raw in (given.get("oldPod"), given.get("pod")):
        if raw and raw["kind"] == "Pod" and raw["metadata"].get("uid"):
            known = pod({**raw, "status": {"phase": "Running"}})
            world.upsert(known)
    ledger, used = world.device_share, UNUSED
    text = (given.get("pod") or {"metadata": {}})["metadata"].get("annotations", {}).get(ALLOCATED)
    if text and text.startswith("{"):
        used = use_of(read_allocations({ALLOCATED: text}))
    assert ledger.use_of("123456789") == used
    if "onPodDelete" in record.test:
        if known:
            world.delete(known)
        assert ledger.use_of("123456789") == UNUSED
