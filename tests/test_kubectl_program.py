"""The check of the kubectl that tests use."""

import re
from pathlib import Path

import pytest

from kubectl_program import OLDEST_MINOR, find_kubectl, problem_of

README = Path(__file__).parents[1] / "README.md"


def fake_kubectl(directory, says):
    program = directory / "kubectl"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("version", ["v1.30.14", "v1.32.4-dispatcher", "v1.36.2+k3s1"])
def test_a_kubectl_of_the_oldest_version_or_newer_is_used(tmp_path, version):
    program = fake_kubectl(tmp_path, f'{{"clientVersion": {{"gitVersion": "{version}"}}}}')
    assert problem_of(program) == ""


def test_an_older_kubectl_is_refused_with_one_sentence(tmp_path):
    program = fake_kubectl(tmp_path, '{"clientVersion": {"gitVersion": "v1.29.3"}}')
    wanted = f"{program} is kubectl 1.29: Holdfast needs kubectl 1.{OLDEST_MINOR} or newer"
    assert problem_of(program) == wanted


@pytest.mark.parametrize("says", ["", "nonsense", "{}", "[]", '{"clientVersion": 1}'])
def test_a_program_that_is_not_kubectl_is_reported(tmp_path, says):
    program = fake_kubectl(tmp_path, says)
    assert problem_of(program) == f"{program} does not answer `kubectl version --client -o json`"
    missing = str(tmp_path / "none")
    assert problem_of(missing).startswith(missing)


def test_kubectl_comes_from_the_environment_then_path_then_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_BINARIES", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("HOLDFAST_KUBECTL", raising=False)
    assert "put it on PATH" in problem_of(find_kubectl())
    for version in ("v1.9.1", "v1.30.14", "v1.30.2"):
        (tmp_path / version).mkdir()
        fake_kubectl(tmp_path / version, "")
    assert find_kubectl() == str(tmp_path / "v1.30.14" / "kubectl")
    monkeypatch.setenv("PATH", str(tmp_path / "v1.9.1"))
    assert find_kubectl() == str(tmp_path / "v1.9.1" / "kubectl")
    monkeypatch.setenv("HOLDFAST_KUBECTL", "/chosen")
    assert find_kubectl() == "/chosen"


def test_the_readme_states_the_oldest_kubectl():
    stated = re.findall(r"kubectl\]?(?:\([^)]*\))?\s+1\.(\d+)\s+or\s+newer", README.read_text())
    assert stated == [str(OLDEST_MINOR)]
