import asyncio

import pytest

from apiserver.server_fixture import start_server
from holdfast.runtime.feature_gates import FeatureGates
from real.both_servers import Servers, send
from real.control_plane import ControlPlane, program

FLAGS = ("--runtime-config=resource.k8s.io/v1beta2=true",)
"""DeviceTaintRules are served; the rights in deploy/rbac include them."""


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory):
    """A control plane for all tests; it logs what service accounts do."""
    missing = [name for name in ("etcd", "kube-apiserver", "kubectl") if program(name) is None]
    if missing:
        pytest.fail(f"{', '.join(missing)} not found: run `make binaries` (needs Go) first")
    plane = ControlPlane(tmp_path_factory.mktemp("real"), audit=True, flags=FLAGS).start()
    try:
        yield plane
        refused = plane.refused()
    finally:
        plane.stop()
    # A controller that lacks a right tries again, so that no other test may notice.
    assert not refused, "rights that deploy/rbac lacks:\n" + "\n".join(refused)


@pytest.fixture(scope="module", autouse=True)
def _no_pods_left(request):
    """Delete the pods of a module, so that they need no room on the nodes of the next one."""
    yield
    mine = (item for item in request.session.items if item.path == request.path)
    if any("control_plane" in item.fixturenames for item in mine):
        plane = request.getfixturevalue("control_plane")
        flags = ("--grace-period=0", "--force", "--wait=false")
        plane.kubectl("delete", "pods", "--all", "--all-namespaces", *flags)


@pytest.fixture(scope="session")
def scheduler_kubeconfig(control_plane):
    """A kubeconfig with the rights in deploy/rbac/scheduler.yaml."""
    return control_plane.service_account("holdfast-scheduler")


@pytest.fixture(scope="session")
def controllers_kubeconfig(control_plane):
    """A kubeconfig with the rights in deploy/rbac/controllers.yaml."""
    return control_plane.service_account("holdfast-controllers")


@pytest.fixture
async def embedded(tmp_path):
    """The embedded server; it serves DeviceTaintRules too."""
    async with start_server(
        tmp_path, feature_gates=FeatureGates.parse("DRADeviceTaintRules=true")
    ) as running:
        yield running


@pytest.fixture
async def servers(control_plane, tmp_path):
    """The real and the embedded server; the DeviceClass of a test is deleted after it."""
    async with start_server(tmp_path) as running:
        both = Servers(control_plane, running)
        yield both
        classes = "/apis/resource.k8s.io/v1/deviceclasses/gpu"
        await asyncio.to_thread(send, control_plane, "DELETE", classes)
