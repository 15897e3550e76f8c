"""Modules that the program imports before a command runs."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

HEAVY = {
    "numpy",
    "aiohttp",
    "msgspec",
    "yaml",
    "rich.console",
    "cryptography",
    "kubernetes_asyncio",
    "pydantic",
}
SCRIPT = """
import sys
from holdfast.cli import main
try:
    main()
finally:
    print("LOADED", *sys.modules)
"""


@pytest.mark.parametrize("command", ["--help", "up --help", "status", "down"])
def test_quick_commands_load_nothing_heavy(command, tmp_path):
    arguments = command.split()
    if arguments[0] in ("status", "down"):
        arguments += ["--data-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, timeout=60
    )
    loaded = set(done.stdout.partition("LOADED")[2].split())
    assert "typer" in loaded
    assert not HEAVY & loaded


@pytest.mark.parametrize(
    ("module", "foreign"),
    [
        ("up_command", {"holdfast.server", "aiohttp", "cryptography", "rich.console"}),
        (
            "apiserver_command",
            {"holdfast.scheduling.scheduler", "holdfast.scheduling.plugins", "numpy"},
        ),
        (
            "controllers_command",
            {"holdfast.scheduling.scheduler", "holdfast.scheduling.plugins", "numpy"},
        ),
    ],
)
def test_a_process_loads_nothing_that_another_process_runs(module, foreign):
    code = f"import sys, holdfast.cli.{module}; print(*sys.modules)"
    if module == "apiserver_command":
        code = f"import holdfast.server.https_server, holdfast.server.store; {code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert f"holdfast.cli.{module}" in done.stdout
    assert not foreign & set(done.stdout.split())


def test_numpy_will_start_no_threads_unless_the_user_wants_some(holdfast, monkeypatch):
    for given, used in ((None, "1"), ("4", "4")):
        monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
        if given:
            monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
        holdfast("--version")
        assert os.environ["OPENBLAS_NUM_THREADS"] == used


def test_version_prints_the_version(holdfast):
    done = holdfast("--version")
    assert (done.code, done.out) == (0, f"holdfast {version('holdfast-scheduler')}\n")


def test_help_names_every_command(holdfast):
    done = holdfast("--help")
    for name in (
        *("up", "down", "status", "apiserver", "scheduler", "controllers"),
        *("why", "explain", "policy"),
    ):
        assert f"\n  {name} " in done.out


def test_a_closed_output_pipe_causes_no_traceback(tmp_path):
    lines = b'{"pod": "p", "objects": []}\n' * 20_000
    (tmp_path / "lines").write_bytes(lines)
    command = f"{sys.executable} -m holdfast explain --batch < {tmp_path}/lines | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert "not among the objects" in done.stdout
    assert done.stderr == ""
