"""The README's transcript, replayed: every command is run, every line it prints is compared.

The cluster is started as the README says, in a process of its own, and the real kubectl talks to
it over HTTPS. Ages, addresses and generated names differ from run to run and are compared by form.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
VARYING = [
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r"\b(?:\d+[smhd])+\b(?=\s|$)"), "AGE"),
    (re.compile(r"\bnode-\d{4}\b"), "NODE"),
    (re.compile(r"\b(web|demo)-[a-z0-9]{8,10}-[a-z0-9]{5}\b"), r"\1-HASH-ID"),
    (re.compile(r"(-extended-resources)-[a-z0-9]{5}\b"), r"\1-ID"),
    (re.compile(r"[ \t]+"), " "),
]


def kubectl():
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    built = sorted(Path(cache).glob("holdfast/bin/*/kubectl"))
    return str(built[-1]) if built else shutil.which("kubectl")


def transcript():
    """(command, expected lines) of every console block, in order."""
    steps = []
    for block in re.findall(r"```console\n(.*?)```", README.read_text(), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif line.strip():
                steps[-1][1].append(line)
    return steps


def shape(text):
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return sorted(line.strip() for line in text.splitlines() if line.strip())


@pytest.fixture
def environment(tmp_path):
    if kubectl() is None:
        pytest.skip("needs the real kubectl: put it on PATH, or run `make binaries` (needs Go)")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "kubectl").symlink_to(kubectl())
    (tools / "holdfast").symlink_to(Path(sys.executable).parent / "holdfast")
    data = tmp_path / "data"
    env = {
        **os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "XDG_DATA_HOME": str(data),
        "KUBECONFIG": str(data / "holdfast" / "kubeconfig"),
        "KUBECACHEDIR": str(tmp_path / "cache"),
    }  # fmt: skip
    up = ["holdfast", "up", "--port", "0", "--detach"]
    subprocess.run(up, env=env, check=True, cwd=ROOT, timeout=90)
    yield env
    subprocess.run(["holdfast", "down"], env=env, check=True, timeout=60)


def run(command, env):
    done = subprocess.run(
        shlex.split(command), env=env, cwd=ROOT, text=True, capture_output=True, timeout=60
    )
    return done.stdout + done.stderr


@pytest.mark.kubectl
def test_the_transcript_of_the_readme_is_true(environment):
    steps = transcript()
    assert len(steps) > 8
    for command, expected in steps:
        deadline = time.monotonic() + 20
        while shape(found := run(command, environment)) != shape("\n".join(expected)):
            # Reading commands may be early: the cluster reacts in its own time.
            reads = command.split()[1] in ("get", "why", "status")
            assert reads and time.monotonic() < deadline, f"$ {command}\n{found}"
            time.sleep(0.1)
    where = "jsonpath={.status.nodeName}{.spec.nodeName}"
    reserved = run(f"kubectl get reservation reservation-demo -o {where}", environment)
    assert run(f"kubectl get pod pod-demo-0 -o {where}", environment) == reserved != ""
