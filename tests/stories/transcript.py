"""Replay the console blocks of a document: run every command and compare every line.

The cluster is started in a process of its own and the real kubectl talks to it over HTTPS. Ages,
addresses and generated names differ from run to run and are compared by form. What is printed as
YAML is compared as YAML: a document may leave fields out, and times and uids stand for any.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import yaml

from holdfast.api.quantity import Quantity
from holdfast.runtime.errors import HoldfastError
from kubectl_program import QUICK, find_kubectl

ROOT = Path(__file__).parents[2]
VARYING = [
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    # Not after a hyphen: a generated name may end in 8297h.
    (re.compile(r"(?<![\w-])(?:\d+[smhd])+\b(?=\s|$)"), "AGE"),
    (re.compile(r"\bnode-\d{4}\b"), "NODE"),
    (re.compile(r"\b(web|demo|app-demo|shop)-[a-z0-9]{8,10}-[a-z0-9]{5}\b"), r"\1-HASH-ID"),
    (re.compile(r"\bweb-[a-z0-9]{5}\b"), "web-ID"),
    (re.compile(r"(-extended-resources|\bsmall-card|-devices|-NODE)-[a-z0-9]{5}\b"), r"\1-ID"),
    # kubectl 1.33 and later say from which namespace they delete.
    (re.compile(r"( deleted) from \S+ namespace$", re.M), r"\1"),
    (re.compile(r"[ \t]+"), " "),
]
ANY = re.compile(r"^(YYYY-MM-DDT[\d:]+Z|([a-z])\2{7}-.*|.*HASH-ID)$")
READS = ("get", "logs", "describe", "why", "status", "list", "free", "devices", "--dry-run", "cpus")


def steps_of(document):
    """Return the commands of all console blocks in order, each with its expected lines."""
    steps = []
    for block in re.findall(r"```console\n(.*?)```", document.read_text(), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif line.strip():
                steps[-1][1].append(line)
    return steps


@contextmanager
def running_cluster(directory, *options):
    """Run ``holdfast up``; yield the environment for the commands of a document."""
    tools = directory / "bin"
    tools.mkdir()
    (tools / "kubectl").symlink_to(find_kubectl())
    (tools / "holdfast").symlink_to(Path(sys.executable).parent / "holdfast")
    data = directory / "data"
    env = {
        **os.environ, **QUICK, "PATH": f"{tools}:{os.environ['PATH']}",
        "XDG_DATA_HOME": str(data),
        "KUBECONFIG": str(data / "holdfast" / "kubeconfig"),
        "KUBECACHEDIR": str(directory / "cache"),
    }  # fmt: skip
    up = ["holdfast", "up", "--port", "0", "--detach", *options]
    subprocess.run(up, env=env, check=True, cwd=ROOT, timeout=90)
    try:
        yield env
    finally:
        subprocess.run(["holdfast", "down"], env=env, check=True, timeout=60)


def run(command, env, directory=ROOT):
    """Run one command, in a shell if it has a pipe."""
    shell = "|" in command
    done = subprocess.run(
        command if shell else shlex.split(command), env=env, cwd=directory, text=True,
        capture_output=True, timeout=90, shell=shell,
    )  # fmt: skip
    return done.stdout + done.stderr


def replay(document, env):
    """Run every command of a document and return their number."""
    return replay_steps(steps_of(document), env)


def replay_steps(steps, env, directory=ROOT):
    """Run commands; retry reading commands until the output agrees."""
    for command, expected in steps:
        deadline = time.monotonic() + 60
        while not agrees(command, found := run(command, env, directory), "\n".join(expected)):
            # A reading command may be too early: the cluster needs some time to react.
            reads = any(word in READS for word in command.split()[1:3])
            assert reads and time.monotonic() < deadline, f"$ {command}\n{found}"
            time.sleep(0.3)  # a process is started for every try
    return len(steps)


def agrees(command, found, expected):
    if command.split()[-1] in ("yaml", "-oyaml"):
        try:
            return within(yaml.safe_load(expected), yaml.safe_load(found))
        except yaml.YAMLError:
            return False
    return shape(found) == shape(expected)


def shape(text):
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return sorted(line.strip() for line in text.splitlines() if line.strip())


def within(expected, found):
    """Tell whether the output contains everything that the document shows."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            key in found and within(value, found[key]) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(within(one, other) for one, other in zip(expected, found, strict=True))
        )
    if isinstance(expected, str) and ANY.match(expected):
        return bool(found)
    return shape(str(expected)) == shape(str(found)) or same_amount(expected, found)


def same_amount(expected, found):
    try:
        return Quantity.parse(expected) == Quantity.parse(found)
    except (HoldfastError, TypeError, AttributeError):
        return False
