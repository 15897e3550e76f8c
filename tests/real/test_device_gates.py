"""Devices on a real kube-apiserver with other feature gates: the same answers as ours with them."""

import pytest

from apiserver.server_fixture import start_server
from holdfast.feature_gates import FeatureGates
from real.control_plane import ControlPlane
from real.test_device_objects import TEST, answered, errors, send_to_both
from validation.device_builders import CLAIMS, CLASSES, SLICES
from validation.device_objects import GATED_CLAIMS, GATED_CLASSES
from validation.slice_objects import BAD_LISTS, GOOD_LISTS

pytestmark = pytest.mark.real
GATES = "DRAListTypeAttributes=true,DRAConsumableCapacity=false"


@pytest.fixture(scope="module")
def plane(control_plane, tmp_path_factory):
    """A control plane with these gates; the one of all tests shows that there are programs."""
    flags = (f"--feature-gates={GATES}",)
    running = ControlPlane(tmp_path_factory.mktemp("gates"), flags=flags).start()
    yield running
    running.stop()


@pytest.fixture
async def embedded(tmp_path):
    async with start_server(tmp_path, feature_gates=FeatureGates.parse(GATES)) as running:
        yield running


async def test_both_servers_answer_slices_with_lists_alike(plane, embedded):
    for name, body in {**GOOD_LISTS, **BAD_LISTS}.items():
        real, ours = await send_to_both(plane, embedded, "POST", SLICES + TEST, body)
        assert answered(real, "spec") == answered(ours, "spec"), name
        assert (real[0] == 201) == (name in GOOD_LISTS and body is GOOD_LISTS[name]), name


@pytest.mark.parametrize("path, bodies", [(CLASSES, GATED_CLASSES), (CLAIMS, GATED_CLAIMS)])
async def test_both_servers_compile_selectors_with_the_gates(plane, embedded, path, bodies):
    for name, body in bodies.items():
        real, ours = await send_to_both(plane, embedded, "POST", path + TEST, body)
        pair = [(code, errors(answer)) for code, answer in (real, ours)]
        assert pair[0] == pair[1], name
