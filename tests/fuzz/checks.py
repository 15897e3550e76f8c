"""Checks of each response, and of the whole cluster after requests."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import yaml

from fuzz.fuzzer import Probe
from fuzz.kinds import Kind
from fuzz.odd_values import FORMS
from fuzz.target import Answer, Target
from holdfast.api.scheme import DEPLOYMENTS, PODS
from holdfast.server.bootstrap_objects import create_bootstrap_objects
from holdfast.testing import builders as build

SPECIFIED = {
    (
        500,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support.",
    ): "upstream answers an eviction that two budgets govern so",
    (504, "Timeout: Too large resource version"): "upstream waits for a version to come, so long",
}
"""Responses with status 500 and more that upstream returns too, by the start of their message."""
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_YAML_LIMIT = 20_000
_INSTALLED = (
    "reservations.scheduling.koordinator.sh", "resourcepolicies.scheduling.sigs.x-k8s.io",
    "system-cluster-critical", "system-node-critical", "default", "kube-system", "kube-public",
    "kube-node-lease", "kubernetes",
)  # fmt: skip
_STILL_WORKS_SECONDS = 120.0


def check_response(probe: Probe, answer: Answer) -> str:
    """Return what is wrong with a response, "" if nothing is."""
    for name, value in answer.headers.items():
        if _CONTROL.search(name + value):
            return f"header {name} cannot be sent: {value[:80]!r}"
    media = answer.headers.get("content-type", answer.headers.get("Content-Type", ""))
    if probe.method == "HEAD" or answer.status == 304:
        return ""
    if answer.status < 400 and probe.watches and probe.method == "GET":
        return _check_stream(answer.body)
    try:
        value = _read(media, answer.body)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as broken:
        return f"answer of {answer.status} is not {media}: {broken}"
    return _check_failure(answer.status, media, value) if answer.status >= 400 else ""


def _read(media: str, body: bytes) -> Any:
    if media.startswith("application/json"):
        return msgspec.json.decode(body)
    if media.startswith("application/yaml") and len(body) < _YAML_LIMIT:
        return yaml.load(body, yaml.CSafeLoader)
    return body.decode()


def _check_failure(status: int, media: str, value: Any) -> str:
    if media.startswith("text/plain"):
        return "" if status < 500 else f"answer of {status}: {value[:200]}"
    if not isinstance(value, dict) or value.get("kind") != "Status" or value.get("code") != status:
        return f"answer of {status} is no Status of that code: {str(value)[:200]}"
    message = str(value.get("message", ""))
    if status < 500 or status == 501:
        return ""
    if any(status == code and message.startswith(words) for code, words in SPECIFIED):
        return ""
    return f"answer of {status}: {message[:300]}"


def _check_stream(body: bytes) -> str:
    for line in body.split(b"\n")[:-1]:
        try:
            event = msgspec.json.decode(line)
        except msgspec.DecodeError as broken:
            return f"a watch event cannot be read: {broken}"
        if event.get("type") == "ERROR" and event["object"].get("code", 0) >= 500:
            return f"a watch ended with {event['object']}"
    return ""


async def check_lists(target: Target) -> list[str]:
    """Check that every collection can be listed in every format with the same number of items."""
    kinds, _ = await target.read_kinds()
    return [wrong for kind in kinds if "list" in kind.verbs for wrong in await _list(target, kind)]


async def _list(target: Target, kind: Kind) -> list[str]:
    counts, wrong = set(), []
    for form in FORMS[:4]:
        answer = await target.get(kind.path(), form)
        probe = Probe("GET", kind.path(), {}, {"accept": form})
        if answer.status != 200:
            wrong.append(f"list of {kind.path()} as {form}: {answer.status} {answer.body[:300]!r}")
        elif problem := check_response(probe, answer):
            wrong.append(f"list of {kind.path()} as {form}: {problem}")
        elif form.startswith("application/json"):
            listed = msgspec.json.decode(answer.body)
            counts.add(len(listed["rows"] if "as=Table" in form else listed["items"]))
    if len(counts) > 1:
        wrong.append(f"lists of {kind.path()} differ in length: {sorted(counts)}")
    return wrong


async def dump(target: Target) -> dict[str, Any]:
    """Return all stored objects by path."""
    kinds, _ = await target.read_kinds()
    found = {}
    for kind in kinds:
        if "list" in kind.verbs:
            answer = await target.get(kind.path())
            for item in msgspec.json.decode(answer.body).get("items", ()):
                meta = item["metadata"]
                if _is_installed(meta):
                    continue
                found[kind.path(meta.get("namespace", ""), meta["name"])] = item
    return found


def _is_installed(meta: dict[str, Any]) -> bool:
    """Return whether the object is restored at every start, as upstream does."""
    return meta["name"] in _INSTALLED or "kubernetes.io/bootstrapping" in meta.get("labels", {})


async def check_restart(target: Target) -> list[str]:
    """Check that the server returns the same objects after a restart."""
    async with target.components_stopped():
        before = await dump(target)
        await target.restart_server()
        after = await dump(target)
    return [
        f"after a restart {path} is no longer {_shown(before.get(path))} but {_shown(now)}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != (now := after.get(path))
    ]


def _shown(obj: Any) -> str:
    return json.dumps(obj)[:3_000]


async def check_components(target: Target) -> list[str]:
    """Check that all components run, and that none has logged an unexpected error."""
    wrong = [f"a component failed: {text}" for text in target.logged.of_components]
    target.logged.of_components.clear()
    if not target.components.healthy:
        wrong.append(f"components: {await target.components.failure_reason()}")
    return wrong


async def check_still_works(target: Target, name: str) -> list[str]:
    """Check that a simple pod is still scheduled and run, and a Deployment rolled out.

    Requests may have deleted the roles of components, which a starting server creates again.
    """
    await create_bootstrap_objects(target.server)
    only = {"proof": name}
    taint = {"key": "proof", "value": name, "effect": "NoSchedule"}
    spec = {"node_selector": only, "tolerations": [{"key": "proof", "operator": "Exists"}]}
    await target.create(
        build.a_namespace(name), build.a_node(name, labels=only, taints=[taint]),
        build.a_pod(name, namespace=name, **spec),
        build.a_deployment(name, namespace=name, replicas=2, **spec),
    )  # fmt: skip
    await target.advance(_STILL_WORKS_SECONDS)
    wrong = []
    pod = await target.client.get(PODS, name, name)
    if pod.status.phase != "Running":
        why = [c.message for c in pod.status.conditions]
        wrong.append(f"a plain pod is {pod.status.phase} on {pod.spec.node_name!r}: {why}")
    deployment = await target.client.get(DEPLOYMENTS, name, name)
    if deployment.status.available_replicas != 2:
        wrong.append(f"a plain Deployment has {deployment.status.available_replicas} of 2 replicas")
    return wrong
