"""``holdfast up`` imports no modules from its working directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cli-working-directory")]
PROGRAM = Path(sys.executable).with_name("holdfast")
POISON = """
import pathlib
with open({marker!r}, "a") as marker:
    marker.write(__name__ + "\\n")
"""
NAMES = (
    "yaml", "typing", "asyncio", "holdfast", "numpy", "typer", "sqlite3", "logging",
    "sitecustomize", "usercustomize", "uvloop", "brotli", "aiodns",
)  # fmt: skip


@pytest.fixture
def poisoned(tmp_path):
    """Create modules that write a file when imported; return their directory and that file."""
    directory, marker = tmp_path / "cwd", tmp_path / "imported"
    directory.mkdir()
    for name in NAMES:
        (directory / f"{name}.py").write_text(POISON.format(marker=str(marker)))
    return directory, marker


def run(directory, *arguments):
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], cwd=directory, env=kept, capture_output=True, text=True,
        timeout=110,
    )  # fmt: skip


def test_up_and_its_children_import_nothing_from_the_working_directory(poisoned, tmp_path):
    directory, marker = poisoned
    data = ("--data-dir", tmp_path / "data")
    up = run(directory, "up", *data, "--detach", "--port", "0", "--nodes", "1", "--two-processes")
    try:
        assert not marker.exists(), marker.read_text()
        assert up.returncode == 0, up.stderr
    finally:
        assert run(directory, "down", *data).returncode == 0
    assert not marker.exists(), marker.read_text()


def test_a_plugin_is_found_beside_its_configuration_and_not_in_the_working_directory(tmp_path):
    settings, elsewhere = tmp_path / "settings", tmp_path / "elsewhere"
    for directory in (settings, elsewhere):
        directory.mkdir()
    (settings / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- plugins: {multiPoint: {enabled: [{name: 'picky:Picky'}]}}\n"
    )
    plugin = (
        "from holdfast.plugin import PerNodePlugin\n\n\n"
        "class Picky(PerNodePlugin):\n    name = 'Picky'\n\n"
        "    def fits(self, pod, node):\n        return 'too plain'\n"
    )
    (tmp_path / "objects.yaml").write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {pods: '9'}}\n"
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\n"
        "spec: {containers: [{name: c, image: i}]}\n"
    )
    question = ("explain", "--config", settings / "config.yaml", "--pod", "default/p",
                "--snapshot", tmp_path / "objects.yaml")  # fmt: skip
    (elsewhere / "picky.py").write_text(plugin)
    missing = run(elsewhere, *question)
    assert missing.returncode == 2
    assert "put the module next to the configuration file" in missing.stderr
    (settings / "picky.py").write_text(plugin)
    assert "too plain" in run(elsewhere, *question).stdout
