"""Configuration files: errors name the file, the field and the reason."""

import pytest
import yaml

from configuration.config_builders import config, profile
from holdfast.runtime.errors import BadConfiguration, NotBuilt
from holdfast.scheduling.configuration.document import KIND
from holdfast.scheduling.configuration.file import load

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "config.yaml"


def error_of(file, text=None):
    if text is not None:
        file.write_text(text)
    with pytest.raises((BadConfiguration, NotBuilt)) as wrong:
        load(file)
    return str(wrong.value)


def test_a_file_is_read(file):
    file.write_text(yaml.safe_dump(config(profile("mine"), podMaxBackoffSeconds=30)))
    found = load(file)
    assert list(found.profiles) == ["mine"]
    assert found.backoff == (1.0, 30.0)
    file.write_text('{"apiVersion": "kubescheduler.config.k8s.io/v1", '
                    '"kind": "KubeSchedulerConfiguration"}')  # fmt: skip
    assert list(load(file).profiles) == ["default-scheduler", "koord-scheduler"]


def test_one_error_is_printed_on_one_line(file):
    words = error_of(file, f"{HEAD}parallelism: 0\n")
    assert words == (
        f"{file}: parallelism: Invalid value: 0: should be an integer value greater than zero"
    )


def test_several_errors_have_a_line_each(file):
    words = error_of(file, f"{HEAD}parallelism: 0\nprofiles: [{{}}, {{}}]\n")
    assert words.splitlines() == [
        f"{file}:",
        "  parallelism: Invalid value: 0: should be an integer value greater than zero",
        "  profiles[0].schedulerName: Required value",
        "  profiles[1].schedulerName: Required value",
        '  profiles[1].schedulerName: Duplicate value: ""',
    ]


def test_an_unreadable_or_invalid_file_is_reported(file, tmp_path):
    assert error_of(file).startswith(f"{file}: cannot be read: No such file")
    assert error_of(tmp_path).startswith(f"{tmp_path}: cannot be read: ")
    assert error_of(file, "a: [").startswith(f"{file}: is not YAML: ")
    file.write_bytes(b"\xff\xfe\x00")
    assert error_of(file).startswith(f"{file}: ")
    assert error_of(file, "") == f"{file}: expected one document, found 0"
    assert "expected one document, found 2" in error_of(file, f"{HEAD}---\n{HEAD}")
    assert error_of(file, "- a") == f'{file}: {KIND}: Invalid value: ["a"]: must be an object'
    assert error_of(file, "profiles: []").startswith(f"{file}: apiVersion and kind missing: begin")


def test_a_duplicate_key_is_reported(file):
    words = error_of(file, f"{HEAD}parallelism: 1\nparallelism: 2\n")
    assert 'key "parallelism" already set in map' in words
    assert "line 4" in words
