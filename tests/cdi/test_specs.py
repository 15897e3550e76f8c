"""CDI specs: strict reading, the lowest sufficient version, atomic files."""

import json
import stat

import msgspec
import pytest
import yaml

from holdfast.node.cdi.checks import qualified_name_error
from holdfast.node.cdi.files import InvalidSpec, decode_spec, file_name, read_spec, remove_spec
from holdfast.node.cdi.files import write_spec as write
from holdfast.node.cdi.spec import (
    CdiDevice,
    CdiSpec,
    ContainerEdits,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    lowest_version,
)


def raw(version="0.3.0", kind="example.com/gpu", name="claim-1", top=None, **edits):
    found = {
        "cdiVersion": version,
        "kind": kind,
        "devices": [{"name": name, "containerEdits": edits or {"env": ["A=1"]}}],
    }
    return found | (top or {})


def spec(edits=None, name="claim-1", kind="example.com/gpu", **more):
    edits = edits or ContainerEdits(env=("A=1",))
    return CdiSpec(kind=kind, devices=(CdiDevice(name=name, container_edits=edits),), **more)


@pytest.mark.parametrize(
    ("value", "version"),
    [
        (spec(), "0.3.0"),
        (spec(ContainerEdits(hooks=(Hook(hook_name="poststop", path="/x"),))), "0.3.0"),
        (spec(ContainerEdits(mounts=(Mount(host_path="/a", container_path="/b"),))), "0.3.0"),
        (
            spec(ContainerEdits(mounts=(Mount(host_path="/a", container_path="/b", type="bind"),))),
            "0.4.0",
        ),
        (spec(ContainerEdits(device_nodes=(DeviceNode(path="/dev/x"),))), "0.3.0"),
        (spec(ContainerEdits(device_nodes=(DeviceNode(path="/a", host_path="/b"),))), "0.5.0"),
        (spec(name="0"), "0.5.0"),
        (spec(annotations={"a": "b"}), "0.6.0"),
        (spec(kind="example.com/gpu.large"), "0.6.0"),
        (spec(ContainerEdits(additional_gids=(44,))), "0.7.0"),
        (spec(ContainerEdits(intel_rdt=IntelRdt(clos_id="c"))), "0.7.0"),
        (spec(container_edits=ContainerEdits(intel_rdt=IntelRdt(enable_cmt=True))), "0.7.0"),
        (spec(ContainerEdits(intel_rdt=IntelRdt(schemata=()))), "1.1.0"),
        (
            spec(ContainerEdits(net_devices=(NetDevice(host_interface_name="e", name="n"),))),
            "1.1.0",
        ),
    ],
)
def test_the_lowest_sufficient_version_is_written_and_no_lower_one_is_read(
    value, version, tmp_path
):
    assert lowest_version(value) == version
    path = tmp_path / "cdi" / "one.json"
    assert read_spec((write(value, path), path)[1]).cdi_version == version
    lower = json.loads(path.read_text()) | {"cdiVersion": "0.2.0"}
    if version != "0.3.0":
        with pytest.raises(InvalidSpec, match=f"cdiVersion: .* at least {version}, because of"):
            decode_spec(lower, "f")
    else:
        decode_spec(lower, "f")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "f.json: must be an object"),
        (raw("0.9.0"), 'f.json: cdiVersion: Invalid value: "0.9.0": must be one of 0.1.0, '),
        (raw(kind="gpu"), 'f.json: kind: Invalid value: "gpu": must be vendor/class'),
        (raw(kind="9.com/gpu"), 'kind: Invalid value: "9.com/gpu": the vendor must start with'),
        (raw(name="-a"), 'devices[0].name: Invalid value: "-a": must start and end with'),
        (raw(name=""), 'devices[0].name: Invalid value: "": must not be empty'),
        (raw(extra=1), 'f.json: devices[0].containerEdits.extra: unknown field "extra"'),
        (raw(top={"x": 1}), 'f.json: x: unknown field "x"'),
        (raw(env="A"), 'devices[0].containerEdits.env: Invalid value: "A": must be a list'),
        (raw(env=["A", 1]), "containerEdits.env[1]: Invalid value: 1: must be a string"),
        (raw(env=["=1"]), 'containerEdits.env[0]: Invalid value: "=1": must be NAME=VALUE'),
        (raw(top={"devices": []}), "devices: Required value: a spec has at least one device"),
        (raw(top={"devices": [{"name": "a"}]}), "devices[0].containerEdits: Required value"),
        (raw(top={"devices": raw()["devices"] * 2}), "devices[1].name: Duplicate value"),
        (raw(deviceNodes=[{"path": ""}]), "deviceNodes[0].path: Required value"),
        (raw(deviceNodes=[{"path": "/x", "type": "d"}]), "deviceNodes[0].type: Unsupported value"),
        (raw(deviceNodes=[{"path": "/x", "permissions": "rx"}]), "deviceNodes[0].permissions"),
        (raw(deviceNodes=[{"path": "/x", "uid": -1}]), "deviceNodes[0].uid: Invalid value: -1"),
        (raw(mounts=[{"hostPath": "/x"}]), "mounts[0].containerPath: Required value"),
        (raw(hooks=[{"hookName": "x", "path": "/x"}]), "hooks[0].hookName: Unsupported value"),
        (raw("1.1.0", netDevices=[{"name": "a"}]), "netDevices[0].hostInterfaceName: Required"),
        (raw("0.7.0", intelRdt={"closID": "a/b"}), "intelRdt.closID: Invalid value"),
        (raw("0.7.0", additionalGids=[2**33]), "additionalGids[0]: Invalid value"),
    ],
)
def test_a_wrong_spec_is_refused_with_file_and_field(value, message):
    with pytest.raises(InvalidSpec) as wrong:
        decode_spec(value, "f.json")
    assert message in str(wrong.value)


@pytest.mark.parametrize("text", [b"{", b"\xff", b'{"a":' * 5000, b""])
def test_a_file_that_cannot_be_parsed_is_named(text, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.raises(InvalidSpec, match=r"x\.json: "):
        read_spec(path)


def test_yaml_is_read_too(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(raw()))
    assert read_spec(path) == decode_spec(raw(), "")


def test_a_file_is_readable_by_all_and_replaced_as_a_whole(tmp_path):
    path = tmp_path / file_name("gpu.example.com", "0a-1")
    assert path.name == "gpu.example.com-0a-1.json"
    write(spec(), path)
    write(spec(ContainerEdits(env=("B=2",))), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]
    assert json.loads(path.read_text()) == raw(env=["B=2"])
    with pytest.raises(InvalidSpec, match="NAME=VALUE"):
        write(spec(ContainerEdits(env=("B",))), path)
    assert json.loads(path.read_text()) == raw(env=["B=2"])
    remove_spec(path)
    remove_spec(path)
    assert not list(tmp_path.iterdir())


def test_a_claim_uid_cannot_lead_out_of_the_directory():
    with pytest.raises(InvalidSpec, match="cannot be the name of a CDI file"):
        file_name("gpu.example.com", "../../etc/passwd")


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("example.com/gpu=gpu-0", True),
        ("e/g=0", True),
        ("e_x/g.large=a:b.c_d-e", True),
        ("example.com/gpu", False),
        ("gpu=0", False),
        ("e/g=", False),
        ("e-/g=0", False),
        ("e/0g=1", False),
        ("e/g/h=1", False),
        ("e/g=a=b", False),
        ("e/g=a\n", False),
    ],
)
def test_qualified_names(name, valid):
    assert (qualified_name_error(name) == "") == valid


def test_every_field_survives_writing_and_reading(tmp_path):
    edits = ContainerEdits(
        env=("A=1",),
        device_nodes=(
            DeviceNode(
                path="/d",
                host_path="/h",
                type="c",
                major=1,
                minor=2,
                file_mode=0o640,
                permissions="rw",
                uid=3,
                gid=4,
            ),
        ),
        net_devices=(NetDevice(host_interface_name="eth0", name="net0"),),
        mounts=(Mount(host_path="/a", container_path="/b", type="bind", options=("ro",)),),
        hooks=(Hook(hook_name="prestart", path="/h", args=("x",), env=("C=2",), timeout=3),),
        intel_rdt=IntelRdt(
            clos_id="c",
            l3_cache_schema="L3",
            mem_bw_schema="MB",
            schemata=("x",),
            enable_monitoring=True,
            enable_cmt=True,
            enable_mbm=True,
        ),
        additional_gids=(5,),
    )
    whole = spec(edits, annotations={"a": "b"}, container_edits=ContainerEdits(env=("Z=9",)))
    path = tmp_path / "one.json"
    written = write(whole, path)
    assert read_spec(path) == written == msgspec.structs.replace(whole, cdi_version="1.1.0")
