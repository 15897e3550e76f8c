import pytest

from real.control_plane import ControlPlane, program


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory):
    missing = [name for name in ("etcd", "kube-apiserver", "kubectl") if program(name) is None]
    if missing:
        pytest.fail(f"{', '.join(missing)} not found: run `make binaries` (needs Go) first")
    plane = ControlPlane(tmp_path_factory.mktemp("real")).start()
    try:
        yield plane
    finally:
        plane.stop()
