"""Devices on a real kube-apiserver with other feature gates and all versions: the same answers."""

from contextlib import contextmanager
from copy import deepcopy

import pytest

from apiserver.server_fixture import start_server
from holdfast.api.device_versions import V1BETA1
from holdfast.runtime.errors import CAUSE_LIMIT
from holdfast.runtime.feature_gates import FeatureGates
from real.both_servers import TEST, answered, errors, send_to_both
from real.control_plane import ControlPlane
from validation.device_builders import CLAIMS, CLASSES, SLICES, TEMPLATES
from validation.device_objects import BAD, GATED_CLAIMS, GATED_CLASSES, GOOD
from validation.slice_objects import BAD_LISTS, GOOD_LISTS

pytestmark = pytest.mark.real
VERSIONS = ("v1beta1", "v1beta2")
KINDS = {CLAIMS: "ResourceClaim", TEMPLATES: "ResourceClaimTemplate", SLICES: "ResourceSlice"}
OFF = ",".join(
    f"{gate}=false"
    for gate in (
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAPartitionableDevices",
        "DRAResourceClaimDeviceStatus",
        "DRAResourceClaimGranularStatusAuthorization",
    )
)
GATES = "DRAListTypeAttributes=true,DRAConsumableCapacity=false"


@contextmanager
def a_plane(directory, gates):
    versions = ",".join(f"resource.k8s.io/{version}=true" for version in VERSIONS)
    flags = (f"--feature-gates={gates}", f"--runtime-config={versions}")
    running = ControlPlane(directory, flags=flags).start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def plane(control_plane, tmp_path_factory):
    """A control plane with these gates; the one of all tests shows that there are programs."""
    with a_plane(tmp_path_factory.mktemp("gates"), GATES) as running:
        yield running


@pytest.fixture
async def embedded(tmp_path):
    async with start_server(tmp_path, feature_gates=FeatureGates.parse(GATES)) as running:
        yield running


async def test_both_servers_answer_alike_while_the_features_are_off(control_plane, tmp_path):
    gates = FeatureGates.parse(OFF)
    async with start_server(tmp_path / "ours", feature_gates=gates) as embedded:
        with a_plane(tmp_path, OFF) as plane:
            for path in BAD:
                for name, body in [*BAD[path].items(), *GOOD[path].items()]:
                    answers = await send_to_both(plane, embedded, "POST", path + TEST, body)
                    real, ours = (answered(answer, "spec") for answer in answers)
                    assert real == ours or len(real[1]) > CAUSE_LIMIT, name


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


def in_version(version, path, body):
    """Return path and object of v1 in an older version."""
    if version == "v1beta1" and path in KINDS:
        _, from_v1 = V1BETA1[KINDS[path]]
        body = from_v1(deepcopy(body))
    return path.replace("/v1/", f"/{version}/"), {
        **body,
        "apiVersion": f"resource.k8s.io/{version}",
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", BAD, ids=lambda path: path.rpartition("/")[2])
async def test_both_servers_answer_older_versions_alike(plane, embedded, path, version):
    for name, body in [*BAD[path].items(), *GOOD[path].items()]:
        at, older = in_version(version, path, body)
        real, ours = await send_to_both(plane, embedded, "POST", at + TEST, older)
        assert answered(real, "spec") == answered(ours, "spec"), name
