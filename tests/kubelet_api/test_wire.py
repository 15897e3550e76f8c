"""The messages are those of kubelets and drivers: same services, same bytes."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.node.kubelet_api import (
    device_plugin_pb2,
    dra_classic_pb2,
    dra_v1_pb2,
    dra_v1beta1_pb2,
    plugin_registration_pb2,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("module", "service", "methods"),
    [
        (
            plugin_registration_pb2,
            "pluginregistration.Registration",
            "GetInfo NotifyRegistrationStatus",
        ),
        *(
            (
                module,
                f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin",
                "NodePrepareResources NodeUnprepareResources",
            )
            for module, version in ((dra_v1_pb2, "v1"), (dra_v1beta1_pb2, "v1beta1"))
        ),
        (dra_classic_pb2, "v1alpha1.Node", "NodePrepareResource NodeUnprepareResource"),
        (device_plugin_pb2, "v1beta1.Registration", "Register"),
        (
            device_plugin_pb2,
            "v1beta1.DevicePlugin",
            "GetDevicePluginOptions ListAndWatch GetPreferredAllocation Allocate PreStartContainer",
        ),
    ],
)
def test_services_have_upstreams_names(module, service, methods):
    found = module.DESCRIPTOR.services_by_name[service.rpartition(".")[2]]
    assert (found.full_name, [each.name for each in found.methods]) == (service, methods.split())


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (
            plugin_registration_pb2.PluginInfo(
                type="a", name="b", endpoint="c", supported_versions=["d", "e"]
            ),
            b"\x0a\x01a\x12\x01b\x1a\x01c\x22\x01d\x22\x01e",
        ),
        (
            plugin_registration_pb2.RegistrationStatus(plugin_registered=True, error="a"),
            b"\x08\x01\x12\x01a",
        ),
        (dra_v1_pb2.Claim(namespace="a", uid="b", name="c"), b"\x0a\x01a\x12\x01b\x1a\x01c"),
        (
            dra_v1_pb2.NodePrepareResourceResponse(
                devices=[
                    dra_v1_pb2.Device(
                        request_names=["a"],
                        pool_name="b",
                        device_name="c",
                        cdi_device_ids=["d"],
                        share_id="e",
                    )
                ],
                error="f",
            ),
            b"\x0a\x0f\x0a\x01a\x12\x01b\x1a\x01c\x22\x01d\x2a\x01e\x12\x01f",
        ),
        (
            dra_v1_pb2.NodeUnprepareResourcesResponse(
                claims={"u": dra_v1_pb2.NodeUnprepareResourceResponse(error="e")}
            ),
            b"\x0a\x08\x0a\x01u\x12\x03\x0a\x01e",
        ),
        (
            dra_classic_pb2.NodePrepareResourceRequest(
                namespace="a", claim_uid="b", claim_name="c", resource_handle="d"
            ),
            b"\x0a\x01a\x12\x01b\x1a\x01c\x22\x01d",
        ),
        (
            dra_classic_pb2.NodeUnprepareResourceRequest(
                namespace="a", claim_uid="b", claim_name="c", cdi_devices=["d"]
            ),
            b"\x0a\x01a\x12\x01b\x1a\x01c\x22\x01d",
        ),
        (
            device_plugin_pb2.ContainerAllocateResponse(
                envs={"k": "v"},
                mounts=[device_plugin_pb2.Mount(container_path="a", host_path="b")],
                devices=[device_plugin_pb2.DeviceSpec(container_path="a", permissions="r")],
                annotations={"k": "v"},
                cdi_devices=[device_plugin_pb2.CDIDevice(name="n")],
            ),
            b"\x0a\x06\x0a\x01k\x12\x01v\x12\x06\x0a\x01a\x12\x01b\x1a\x06\x0a\x01a\x1a\x01r"
            b"\x22\x06\x0a\x01k\x12\x01v\x2a\x03\x0a\x01n",
        ),
        (
            device_plugin_pb2.RegisterRequest(
                version="a",
                endpoint="b",
                resource_name="c",
                options=device_plugin_pb2.DevicePluginOptions(pre_start_required=True),
            ),
            b"\x0a\x01a\x12\x01b\x1a\x01c\x22\x02\x08\x01",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, bytes) else "",
)
def test_messages_have_upstreams_field_numbers(message, wire):
    assert message.SerializeToString(deterministic=True) == wire


def test_generated_modules_are_up_to_date():
    generate = [sys.executable, "tools/generate_kubelet_api.py", "--check"]
    made = subprocess.run(generate, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr


def test_commands_do_not_import_grpc():
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, holdfast.cli.app; print('grpc' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.strip() == "False"
