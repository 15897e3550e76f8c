"""The example drivers: simulated GPUs, and NVIDIA GPUs with an NVML of the test."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from driverkit.example_modules import load
from driverkit.fake_nvml import FakeNvml
from holdfast.testing import FakeCluster, a_node
from holdfast.testing.driver_conformance import check_driver_async
from holdfast.testing.drivers import DriverNode

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SIMULATED, NVIDIA = EXAMPLES / "50-driver-simulated-gpu", EXAMPLES / "51-driver-nvidia"


@pytest.fixture
def machine(tmp_path):
    """The files of a machine: two GPUs below one PCIe root each."""
    for i in range(2):
        device = tmp_path / f"sys/devices/pci0000:3{i}/0000:3{i}:00.0"
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{i}\n")
        link = tmp_path / f"sys/bus/pci/devices/0000:3{i}:00.0"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(device)
    for name in ("nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    access = tmp_path / "proc/driver/nvidia/capabilities/gpu1/mig/gi1/ci0"
    access.mkdir(parents=True)
    (access / "access").write_text("DeviceFileMinor: 31\nDeviceFileMode: 292\n")
    (access.parent / "access").write_text("DeviceFileMinor: 30\nDeviceFileMode: 292\n")
    return tmp_path


@pytest.fixture
def nvidia(machine, monkeypatch):
    gpus = load(NVIDIA, "gpus", monkeypatch)
    driver = load(NVIDIA, "driver", monkeypatch)
    nvml = FakeNvml(mig=[1])
    return nvml, driver.make_driver(gpus.Gpus(nvml, machine))


async def test_both_drivers_pass_the_conformance_suite(nvidia, monkeypatch):
    nvml, driver = nvidia
    await check_driver_async(driver)
    assert not nvml.instances and not nvml.computes
    await check_driver_async(load(SIMULATED, "driver", monkeypatch).driver)


async def test_pods_of_the_simulated_gpus_are_placed(monkeypatch):
    driver = load(SIMULATED, "driver", monkeypatch).driver
    async with DriverNode(driver) as node:
        listing = await node.client.raw("/apis/resource.k8s.io/v1/resourceslices")
        slices = yaml.safe_load(listing)["items"]
        assert {len(one["spec"].get("devices", ())) for one in slices} == {0, 13}
        whole = await node.prepare(await node.allocate("gpu-0", "gpu-3-3g40gb-1"))
        assert node.edits(whole, "r1").environment == {
            "GPU_DEVICE_GPU_3_3G40GB_1": "gpu-3-3g40gb-1"
        }
        share = await node.prepare(await node.allocate("gpu-2"))
        assert node.edits(share).environment == {
            "GPU_DEVICE_GPU_2": "gpu-2",
            "GPU_DEVICE_GPU_2_MEMORY": "10Gi",
        }
    for one in slices:
        one |= {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    objects = [
        obj
        for name in ("10-classes.yaml", "20-pods.yaml")
        for obj in yaml.safe_load_all((SIMULATED / name).read_text())
    ]
    classes = [obj for obj in objects if obj["kind"] == "DeviceClass"]
    cluster = FakeCluster(a_node("node-1"), *slices, *classes)
    assert {name: cluster.place(pod) for name, pod in pods_with_claims(objects, cluster)} == {
        "two-containers": "node-1",
        "share": "node-1",
    }


def pods_with_claims(objects, cluster):
    """Yield pods with the claims that the claim controller makes of their templates."""
    templates = {o["metadata"]["name"]: o for o in objects if o["kind"] == "ResourceClaimTemplate"}
    for pod in (obj for obj in objects if obj["kind"] == "Pod"):
        name = pod["metadata"]["name"]
        [entry] = pod["spec"]["resourceClaims"]
        template = templates[entry.pop("resourceClaimTemplateName")]
        entry["resourceClaimName"] = name
        cluster.add(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "default", "uid": name},
                "spec": template["spec"]["spec"],
            }
        )
        pod["metadata"] |= {"namespace": "default", "uid": f"{name}-pod"}
        yield name, pod


async def test_nvidia_gpus_are_described_by_their_attributes(nvidia):
    async with DriverNode(nvidia[1]) as node:
        _, gpu = (await node.devices())["gpu-0"]
        values = {
            key: value.string or value.version or value.int_
            for key, value in gpu.attributes.items()
        }
        assert values == {
            "type": "gpu",
            "uuid": "GPU-0",
            "productName": "NVIDIA A100-SXM4-80GB",
            "architecture": "Ampere",
            "index": 0,
            "minor": 0,
            "cudaComputeCapability": "8.0.0",
            "driverVersion": "470.57.2",
            "cudaDriverVersion": "12.4.0",
            "numaNode": 0,
            "resource.kubernetes.io/pciBusID": "0000:30:00.0",
            "resource.kubernetes.io/pcieRoot": "pci0000:30",
        }
        assert gpu.capacity["memory"].value == "80Gi"
        answer = await node.prepare(await node.allocate("gpu-0"))
        edits = node.edits(answer)
        assert edits.environment == {
            "NVIDIA_VISIBLE_DEVICES": "GPU-0",
            "CUDA_VISIBLE_DEVICES": "GPU-0",
        }
        assert [one.path for one in edits.device_nodes] == [
            "/dev/nvidia0",
            "/dev/nvidiactl",
            "/dev/nvidia-uvm",
        ]


async def test_mig_partitions_are_made_for_a_claim_and_removed_after_it(nvidia):
    nvml, driver = nvidia
    async with DriverNode(driver) as node:
        counters = [one for part in await node.slices() for one in part.spec.shared_counters]
        assert [one.name for one in counters] == ["gpu-1"]
        totals = {key: counter.value for key, counter in counters[0].counters.items()}
        slices = {f"memory-slice-{n}": "1" for n in range(8)}
        assert totals == slices | {
            "multiprocessors": "98",
            "copyengine": "7",
            "decoder": "5",
            "jpeg": "1",
            "ofa": "1",
        }
        names = set(await node.devices())
        assert names == {
            "gpu-0",
            "gpu-1-mig-7g80gb-0",
            "gpu-1-mig-3g40gb-0",
            "gpu-1-mig-3g40gb-4",
            *(f"gpu-1-mig-1g10gb-{n}" for n in range(7)),
        }
        claim = await node.allocate("gpu-1-mig-3g40gb-4")
        edits = node.edits(await node.prepare(claim))
        assert edits.environment["NVIDIA_VISIBLE_DEVICES"] == "MIG-1-1-0"
        assert [one.path for one in edits.device_nodes][-2:] == [
            "/dev/nvidia-caps/nvidia-cap30",
            "/dev/nvidia-caps/nvidia-cap31",
        ]
        assert nvml.instances == {1: (1, 9, 4)}
        taken = await node.prepare(await node.allocate("gpu-1-mig-7g80gb-0"))
        assert "gpu-1-mig-7g80gb-0 cannot be made: Insufficient Resources" in taken.error
        await node.unprepare(claim)
        assert not nvml.instances


async def test_failures_of_nvidia_gpus_become_taints(nvidia):
    nvml, driver = nvidia
    nvml.events += [(0, 31), (0, 79)]
    nvml.ecc[1] = 2

    async def taints():
        pools = await driver.pools("n")
        return {
            (t.effect, item.name.partition("-mig")[0])
            for item in pools["n"]
            for t in getattr(item, "taints", ())
        }

    assert await taints() == {("NoExecute", "gpu-0"), ("NoSchedule", "gpu-1")}
    nvml.ecc.clear()
    nvml.remapping[1] = 1
    assert await taints() == {("NoExecute", "gpu-0"), ("NoSchedule", "gpu-1")}


def test_without_a_gpu_the_nvidia_driver_says_so_in_one_sentence(tmp_path):
    """Either NVML for Python or the library of the GPU's driver is missing where tests run."""
    (tmp_path / "pynvml.py").write_text(
        "class NVMLError(Exception): pass\n"
        "def nvmlInit(): raise NVMLError('NVML Shared Library Not Found')\n"
    )
    done = subprocess.run(
        [sys.executable, NVIDIA / "driver.py"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "nvidia.holdfast.dev: no NVIDIA GPU can be used on this machine: "
        "NVML Shared Library Not Found\n"
    )
