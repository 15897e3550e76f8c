"""Run the driver for NVIDIA GPUs on this machine: slices, pods with and without a GPU.

Starts an embedded cluster and examples/51-driver-nvidia, applies the example's manifests and prints
the results, without kubectl. It is used for docs/nvidia.md and to try a new card.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from holdfast.api.scheme import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.runtime.errors import NotFound

EXAMPLE = Path(__file__).parents[1] / "examples" / "51-driver-nvidia"
RESOURCES = {r.kind: r for r in (DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES)}
HOLDFAST = [sys.executable, "-m", "holdfast"]


def main() -> None:
    """Run the demo; the exit status is that of the driver if it cannot start."""
    with tempfile.TemporaryDirectory(prefix="hf-") as name:
        data = Path(name)
        up = ["up", "--detach", "--nodes", "1", "--runtime", "process", "--port", "0"]
        subprocess.run([*HOLDFAST, *up, "--data-dir", name], check=True)
        program = [sys.executable, EXAMPLE / "driver.py"]
        driver = subprocess.Popen([*program, "--kubelet-dir", data / "nodes" / "node-0001"])
        try:
            asyncio.run(_show(data, driver))
        finally:
            driver.terminate()
            driver.wait(timeout=30)
            subprocess.run([*HOLDFAST, "down", "--data-dir", name], check=True)


async def _show(data: Path, driver: subprocess.Popen[bytes]) -> None:
    client = Client(HttpTransport(await load(data / "kubeconfig")), "nvidia-demo")
    try:
        while not (slices := (await client.list(RESOURCE_SLICES)).items):
            if driver.poll() is not None:
                sys.exit(driver.returncode or 1)
            await asyncio.sleep(0.2)
        for one in slices:
            print(f"\n# ResourceSlice {one.name} of node {one.spec.node_name}")
            for device in one.spec.devices:
                values = [a.string or a.version or a.int_ for a in device.attributes.values()]
                print(device.name, dict(zip(device.attributes, values, strict=True)),
                      {key: c.value for key, c in device.capacity.items()})  # fmt: skip
        for file in sorted(EXAMPLE.glob("*.yaml")):
            for raw in yaml.safe_load_all(file.read_text()):
                resource = RESOURCES[raw["kind"]]
                await client.create(resource, raw, "default" if resource.namespaced else "")
                if raw["metadata"]["name"] == "with-gpu":  # before the second pod requests it
                    await _until(client, "with-gpu", "Running")
        await _until(client, "without-gpu", "Succeeded")
        await _print_pods(client, data)
        print("\n# The pod with the GPU is deleted; the second one gets it")
        await client.delete(PODS, "with-gpu", "default")
        await _until(client, "second", "Succeeded")
        await _print_pods(client, data)
    finally:
        await client.close()


async def _until(client: Client, name: str, phase: str) -> None:
    deadline = time.monotonic() + 60
    while (found := (await client.get(PODS, name, "default")).status.phase) != phase:
        assert time.monotonic() < deadline, f"pod {name} is {found}, not {phase}"
        await asyncio.sleep(0.2)


async def _print_pods(client: Client, data: Path) -> None:
    for name in ("with-gpu", "without-gpu", "second"):
        try:
            pod = await client.get(PODS, name, "default")
        except NotFound:
            continue
        print(f"\n# pod {name}: {pod.status.phase}")
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status != "True":
                print(condition.message)
        for log in sorted((data / "nodes" / "node-0001" / "pods" / pod.uid).glob("logs/*/*.log")):
            for line in log.read_text().splitlines():
                print(line.split(" ", 3)[-1])


if __name__ == "__main__":
    main()
