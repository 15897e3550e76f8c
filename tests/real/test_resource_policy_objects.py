"""The CRD of ResourcePolicy on a real kube-apiserver: it refuses what the embedded server refuses.

Both get the same objects; their answers must agree in status, field paths and stored spec.
"""

import asyncio
import json
import time
from pathlib import Path

import pytest
import yaml

from apiserver.server_fixture import start_server
from holdfast.testing import a_resource_policy, a_unit
from policies.policy_objects import BAD, GOOD, policy
from real.both_servers import refused_fields, send

pytestmark = pytest.mark.real
CRDS = Path(__file__).parents[2] / "deploy" / "crds"
DEFINITION = CRDS / "resourcepolicies.scheduling.sigs.x-k8s.io.yaml"
PATH = "/apis/scheduling.sigs.x-k8s.io/v1alpha1/namespaces/default/resourcepolicies"
TEST = "?dryRun=All&fieldValidation=Strict"


@pytest.fixture(scope="module")
def plane(control_plane):
    control_plane.kubectl("apply", "-f", str(CRDS))
    control_plane.kubectl("wait", "--for=condition=Established", "-f", str(CRDS), "--timeout=30s")
    yield control_plane
    control_plane.kubectl("delete", "resourcepolicies", "--all")


@pytest.fixture
async def embedded(tmp_path):
    async with start_server(tmp_path) as running:
        yield running


async def send_to_both(plane, embedded, body):
    status, real = await asyncio.to_thread(send, plane, "POST", PATH + TEST, body)
    answer = await embedded.call("POST", PATH + TEST, body)
    assert answer.status == status, (real, answer.json)
    return status, real, answer.json


async def test_P049_both_servers_refuse_the_same_objects_with_the_same_fields(plane, embedded):
    for name, (obj, field) in BAD.items():
        status, real, ours = await send_to_both(plane, embedded, obj)
        assert (status, refused_fields(real)) == (422, refused_fields(ours)), name
        assert field in {at for at, _ in refused_fields(real)}, name


async def test_both_servers_give_the_same_messages_for_broken_rules(plane, embedded):
    """Where schema and rules are valid CEL, not only the field but the message is the same."""
    compared = 0
    for name, (obj, field) in BAD.items():
        _, real, ours = await send_to_both(plane, embedded, obj)
        said = {c["message"] for c in real["details"]["causes"] if c["field"] == field}
        if all("in body" not in message for message in said):
            assert said == {c["message"] for c in ours["details"]["causes"] if c["field"] == field}
            compared += name in BAD
    assert compared > 30


async def test_both_servers_accept_the_same_objects_and_set_the_same_defaults(plane, embedded):
    for name, obj in GOOD.items():
        status, real, ours = await send_to_both(plane, embedded, obj)
        assert (status, real["spec"]) == (201, ours["spec"]), name


def test_kubectl_shows_strategy_usage_and_headroom(plane):
    shown = a_resource_policy("shown", units=[a_unit("od", max_count=2)], strategy="prefer")
    plane.kubectl("create", "-f", "-", text=json.dumps(shown))
    ready = [{"type": "Ready", "status": "True"}]
    status = {"usage": "od 2/2, spot 1/3", "headroom": "2", "conditions": ready}
    patch = json.dumps({"status": status})
    plane.kubectl("patch", "rsp", "shown", "--subresource=status", "--type=merge", "-p", patch)
    head, row = plane.kubectl("get", "resourcepolicies", "shown").splitlines()
    assert head.split() == ["NAME", "STRATEGY", "PODS", "HEADROOM", "AGE"]
    assert row.split()[:-1] == ["shown", "prefer", "od", "2/2,", "spot", "1/3", "2"]
    head, row = plane.kubectl("get", "rsp", "shown", "-o", "wide").splitlines()
    assert (head.split()[4], row.split()[7]) == ("READY", "True")


def test_an_update_may_not_make_an_object_invalid(plane):
    status, stored = send(plane, "POST", PATH, {**policy(), "metadata": {"name": "changed"}})
    assert status == 201
    invalid, field = BAD["duplicate unit names"]
    changed = {**stored, "spec": invalid["spec"]}
    status, refusal = send(plane, "PUT", f"{PATH}/changed", changed)
    assert (status, refused_fields(refusal)) == (422, {(field, "FieldValueInvalid")})


def without_rules():
    """Return the CRD as an earlier one may have been: it accepts any spec."""
    definition = yaml.safe_load(DEFINITION.read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    return definition


def test_the_status_of_a_policy_that_was_stored_before_the_rules_can_be_written(plane):
    names = ("duplicate unit names", "a wrong key in podLabels", "a negative number")
    plane.kubectl("apply", "-f", "-", text=json.dumps(without_rules()))
    for i, name in enumerate(names):
        old = {**BAD[name][0], "metadata": {"name": f"old-{i}"}}
        until(lambda old=old: send(plane, "POST", PATH, old)[0] in (201, 409))
    plane.kubectl("apply", "-f", str(DEFINITION))
    until(lambda: send(plane, "POST", PATH + TEST, BAD[names[0]][0])[0] == 422)
    for i, name in enumerate(names):
        plane.kubectl("label", "rsp", f"old-{i}", "seen=yes")
        status = json.dumps({"status": {"usage": name}})
        command = ("patch", "rsp", f"old-{i}", "--subresource=status", "--type=merge", "-p", status)
        plane.kubectl(*command)
        assert plane.get("rsp", f"old-{i}")["status"] == {"usage": name}


def until(holds, seconds=30):
    """Ask until it holds: a changed CRD is served only some moments later."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
