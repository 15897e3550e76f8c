"""Names of CDI devices, resolved from the files of some directories."""

import json

import pytest

from holdfast.node.cdi.registry import CdiRegistry, UnresolvableDevice


@pytest.fixture
def dirs(tmp_path):
    found = [tmp_path / "etc", tmp_path / "run"]
    for path in found:
        path.mkdir()
    return found


def put(path, *devices, env=(), **more):
    path.write_text(
        json.dumps(
            {
                "cdiVersion": "0.3.0",
                "kind": "example.com/gpu",
                "devices": [
                    {"name": n, "containerEdits": {"env": [f"D={n}@{path.name}"]}} for n in devices
                ],
                **({"containerEdits": {"env": list(env)}} if env else {}),
                **more,
            }
        )
    )


def error_of(registry, *names):
    with pytest.raises(UnresolvableDevice) as wrong:
        registry.resolve(names)
    return wrong.value


def test_edits_of_a_spec_come_once_and_those_of_devices_in_order(dirs):
    put(dirs[0] / "a.json", "x", "y", env=["S=a"])
    put(dirs[1] / "b.json", "z", env=["S=b"])
    registry = CdiRegistry(dirs)
    names = [f"example.com/gpu={name}" for name in "yzxy"]
    found = registry.resolve(names)
    assert found.env == ("S=a", "D=y@a.json", "S=b", "D=z@b.json", "D=x@a.json")
    assert found.environment == {"S": "b", "D": "x@a.json"}
    assert not registry.resolve([])


def test_a_later_directory_hides_an_earlier_one(dirs):
    put(dirs[0] / "a.json", "x")
    put(dirs[0] / "b.json", "x")
    registry = CdiRegistry([*dirs, dirs[0].parent / "missing"])
    error = error_of(registry, "example.com/gpu=x")
    assert f"conflicting files {dirs[0]}/a.json and {dirs[0]}/b.json" in str(error)
    put(dirs[1] / "c.json", "x")
    assert registry.resolve(["example.com/gpu=x"]).env == ("D=x@c.json",)


def test_unresolvable_devices_are_listed_with_the_reason(dirs):
    put(dirs[0] / "a.json", "x")
    registry = CdiRegistry(dirs)
    error = error_of(registry, "example.com/gpu=x", "example.com/gpu=q", "example.com/gpu=r")
    assert str(error) == "unresolvable CDI devices example.com/gpu=q, example.com/gpu=r"
    assert error.names == ("example.com/gpu=q", "example.com/gpu=r")
    assert "gpu: must be vendor/class=name" in str(error_of(registry, "gpu"))
    put(dirs[1] / "broken.json", "q", unknown=1)
    assert f"{dirs[1]}/broken.json: unknown: unknown field" in str(
        error_of(registry, "example.com/gpu=q")
    )
    assert list(registry.invalid_files()) == [dirs[1] / "broken.json"]
    assert registry.resolve(["example.com/gpu=x"])


def test_files_that_come_change_and_go_are_seen(dirs):
    registry = CdiRegistry(dirs)
    path = dirs[1] / "a.json"
    error_of(registry, "example.com/gpu=x")
    put(path, "x")
    (dirs[1] / "a.json.tmp").write_text("{")
    (dirs[1] / "dir.json").mkdir()
    assert registry.resolve(["example.com/gpu=x"]).env == ("D=x@a.json",)
    put(path, "x", env=["S=1"])
    assert registry.resolve(["example.com/gpu=x"]).env == ("S=1", "D=x@a.json")
    path.unlink()
    error_of(registry, "example.com/gpu=x")
