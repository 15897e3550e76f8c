"""Laws of choosing devices, for random nodes, uses and requests."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from device_share.building import asked, gpu, node, rdma, using
from holdfast.state.device_share.allocation_annotation import allocations_text, read_allocations
from holdfast.state.device_share.allocations import use_of
from holdfast.state.device_share.candidates import DeviceRejection, Restriction
from holdfast.state.device_share.choosing import choose_devices
from holdfast.state.device_share.requests import MEMORY
from holdfast.state.device_share.scoring import ScoringStrategy

GI = 2**30
FUNCTIONS = [{"labels": {}, "vfs": [{"minor": i, "busID": f"0000:{i}"} for i in range(2)]}]
place = st.tuples(st.integers(-1, 1), st.sampled_from("ABC"))


@st.composite
def nodes(draw):
    at = st.none() if draw(st.booleans()) else place
    gpus = [
        gpu(minor, at=draw(at), health=draw(st.integers(0, 5)) > 0)
        for minor in range(draw(st.integers(0, 8)))
    ]
    cards = [
        rdma(minor, at=draw(at), vfGroups=FUNCTIONS) for minor in range(draw(st.integers(0, 4)))
    ]
    model = {"node.koordinator.sh/gpu-model": "H100"} if draw(st.booleans()) else {}
    return node(*gpus, *cards, node_labels=model)


REQUESTS = [
    {"gpu": 30},
    {"gpu": 100},
    {"nvidia.com/gpu": 2},
    {"gpu-memory": 5 * GI},
    {"gpu.shared": 2, "gpu-core": 80, "gpu-memory-ratio": 120},
    {"rdma": 40},
    {"rdma": 200},
    {"gpu": 100, "rdma": 1},
]
HINTS = [
    {},
    {"rdma": {"vfSelector": {}}},
    {"rdma": {"allocateStrategy": "ApplyForAll"}},
    {"rdma": {"exclusivePolicy": "PCIeLevel"}, "gpu": {"requiredTopologyScope": "NUMANode"}},
]
JOINT = [
    {},
    {"deviceTypes": ["gpu", "rdma"]},
    {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"},
]


@st.composite
def pods(draw):
    annotations = {
        "device-allocate-hint": json.dumps(draw(st.sampled_from(HINTS))),
        "device-joint-allocate": json.dumps(draw(st.sampled_from(JOINT))),
    }
    return asked(draw(st.sampled_from(REQUESTS)), annotations=annotations)


restrictions = st.builds(
    Restriction,
    preferred=st.frozensets(st.tuples(st.just("gpu"), st.integers(0, 7)), max_size=2),
    numa_nodes=st.none() | st.integers(1, 3),
)


@settings(max_examples=60, deadline=None)
@given(nodes(), st.lists(st.tuples(pods(), restrictions), max_size=12))
def test_never_more_than_there_is(state, attempts):
    strategy = ScoringStrategy()
    for pod, restriction in attempts:
        found = choose_devices(state, pod, restriction, strategy)
        assert found == choose_devices(state, pod, restriction, strategy)
        if isinstance(found, DeviceRejection):
            assert found.reasons
            continue
        for request in pod.requests:
            listed = found[request.type]
            assert len({one.minor for one in listed}) == len(listed) >= request.count
        before, taken = state, use_of(found)
        assert not before.used.vfs & taken.vfs
        state = using(state, found)
        assert state.used.minus(taken) == before.used
        for kind, minor, used in state.used.amounts:
            [device] = [one for one in state.inventory.devices[kind] if one.minor == minor]
            room = list(device.total)
            if kind == "gpu":
                room[MEMORY] += room[MEMORY] // 100  # a ratio is rounded to whole percent
            assert all(a <= b for a, b in zip(used, room, strict=True))
        text = allocations_text(found, {})
        assert read_allocations({"scheduling.koordinator.sh/device-allocated": text}) == found
