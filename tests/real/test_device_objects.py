"""Objects of resource.k8s.io on a real kube-apiserver: the embedded server gives its answers.

Both get the same objects; their answers must agree in status, fields, reasons and messages.
"""

import asyncio

import pytest

from holdfast.api.validation.json_fields import is_same
from parity import vectors
from real.both_servers import TEST, answered, errors, send, send_to_both, without_times
from validation.device_builders import CLAIMS, CLASSES, device_class, selector
from validation.device_objects import BAD, GOOD, UNREADABLE
from validation.device_statuses import (
    BAD_POD_STATUSES,
    BAD_PODS,
    BAD_STATUSES,
    CHANGES,
    CLAIM,
    GOOD_POD_STATUSES,
    GOOD_PODS,
    GOOD_STATUSES,
    POD,
    STATUS_CHANGES,
    device_status,
    status,
)
from validation.taint_rule_objects import (
    BAD_RULE_STATUSES,
    BAD_RULES,
    GOOD_RULE_STATUSES,
    GOOD_RULES,
    RULES,
    rule,
)

pytestmark = pytest.mark.real
BAD_OBJECTS, GOOD_OBJECTS = {**BAD, RULES: BAD_RULES}, {**GOOD, RULES: GOOD_RULES}
RULE = rule("status")
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def plane(control_plane):
    return control_plane


def differences(objects, answers):
    return {
        name: (real, ours)
        for name, (real, ours) in zip(objects, answers, strict=True)
        if real != ours
    }


def listed(different):
    return "\n".join(f"{name}\n  {real}\n  {ours}" for name, (real, ours) in different.items())


async def refusals(plane, embedded, path, objects):
    found = []
    for body in objects.values():
        answers = await send_to_both(plane, embedded, "POST", path + TEST, body)
        found.append([(status, errors(answer)) for status, answer in answers])
    return found


@pytest.mark.parametrize("path", BAD_OBJECTS, ids=lambda path: path.rpartition("/")[2])
async def test_both_servers_refuse_the_same_objects_with_the_same_errors(plane, embedded, path):
    found = await refusals(plane, embedded, path, BAD_OBJECTS[path])
    assert {status for (status, _), _ in found} == {422}
    assert not (different := differences(BAD_OBJECTS[path], found)), listed(different)


@pytest.mark.parametrize("path", GOOD_OBJECTS, ids=lambda path: path.rpartition("/")[2])
async def test_both_servers_accept_the_same_objects_and_set_the_same_defaults(
    plane, embedded, path
):
    for name, body in GOOD_OBJECTS[path].items():
        real, ours = await send_to_both(plane, embedded, "POST", path + TEST, body)
        assert (real[0], ours[0]) == (201, 201), (name, real[1], ours[1])
        for part in ("spec", "status"):
            pair = [without_times(answer.get(part)) for _, answer in (real, ours)]
            assert is_same(*pair), (name, *pair)


async def test_both_servers_cannot_read_the_same_objects(plane, embedded):
    for name, (path, body) in UNREADABLE.items():
        real, ours = await send_to_both(plane, embedded, "POST", path + TEST, body)
        assert (real[0], ours[0]) == (400, 400), (name, real[1], ours[1])


async def test_both_servers_refuse_the_same_pods_with_the_same_errors(plane, embedded):
    found = await refusals(plane, embedded, PODS, BAD_PODS)
    assert not (different := differences(BAD_PODS, found)), listed(different)
    for name, body in GOOD_PODS.items():
        real, ours = await send_to_both(plane, embedded, "POST", PODS + TEST, body)
        assert (real[0], ours[0]) == (201, 201), (name, real[1], ours[1])


@pytest.mark.parametrize(
    "path, stored, bad, good",
    [
        (CLAIMS, CLAIM, BAD_STATUSES, GOOD_STATUSES),
        (PODS, POD, BAD_POD_STATUSES, GOOD_POD_STATUSES),
        (RULES, RULE, BAD_RULE_STATUSES, GOOD_RULE_STATUSES),
    ],
    ids=["claims", "pods", "taint rules"],
)
async def test_both_servers_refuse_the_same_statuses_with_the_same_errors(
    plane, embedded, path, stored, bad, good
):
    created = await send_to_both(plane, embedded, "POST", path, stored)
    assert [status for status, _ in created] == [201, 201]
    at = f"{path}/status"
    found = []
    for written in bad.values():
        answers = await send_to_both(
            plane, embedded, "PUT", f"{at}/status{TEST}", {**stored, "status": written}
        )
        found.append([(code, errors(answer)) for code, answer in answers])
    try:
        assert {code for (code, _), _ in found} == {422}
        assert not (different := differences(bad, found)), listed(different)
        for name, written in good.items():
            body = {**stored, "status": written}
            real, ours = await send_to_both(plane, embedded, "PUT", f"{at}/status{TEST}", body)
            assert (real[0], ours[0]) == (200, 200), (name, real[1], ours[1])
            pair = [without_times(answer["status"]) for _, answer in (real, ours)]
            assert path == PODS or is_same(*pair), (name, *pair)
    finally:
        await asyncio.to_thread(send, plane, "DELETE", at)


@pytest.mark.parametrize("name", CHANGES)
async def test_both_servers_answer_updates_alike(plane, embedded, name):
    path, stored, changed = CHANGES[name]
    created = await send_to_both(plane, embedded, "POST", path, stored)
    try:
        assert [status for status, _ in created] == [201, 201], created
        real, ours = await send_to_both(plane, embedded, "PUT", f"{path}/one", changed)
        assert answered(real, "spec") == answered(ours, "spec")
        assert real[1]["metadata"].get("generation") == ours[1]["metadata"].get("generation")
    finally:
        await asyncio.to_thread(send, plane, "DELETE", f"{path}/one")


@pytest.mark.parametrize("name", STATUS_CHANGES)
async def test_both_servers_answer_updates_of_the_status_alike(plane, embedded, name):
    stored, changed = STATUS_CHANGES[name]
    at = f"{CLAIMS}/status"
    await send_to_both(plane, embedded, "POST", CLAIMS, CLAIM)
    try:
        body = {**CLAIM, "status": stored}
        written = await send_to_both(plane, embedded, "PUT", f"{at}/status", body)
        assert [status for status, _ in written] == [200, 200], written
        body = {**CLAIM, "status": changed}
        real, ours = await send_to_both(plane, embedded, "PUT", f"{at}/status", body)
        assert answered(real, "status") == answered(ours, "status")
    finally:
        await asyncio.to_thread(send, plane, "DELETE", at)


async def test_D088_both_servers_demand_the_same_rights(plane, embedded):
    user = {"Impersonate-User": "writer"}
    at = f"{CLAIMS}/status"
    await send_to_both(plane, embedded, "POST", CLAIMS, CLAIM)
    try:
        for role, written in (
            (("resourceclaims/status", "update"), status()),
            (("resourceclaims/binding", "update"), status()),
            (None, device_status()),
            (("resourceclaims/driver", "arbitrary-node:update"), device_status()),
            (None, {}),
        ):
            for path, body in () if role is None else rights(*role):
                await send_to_both(plane, embedded, "POST", path, body)
            body = {**CLAIM, "status": written}
            real, ours = await answers_of_user(plane, embedded, f"{at}/status", body, user)
            assert answered(real, "status") == answered(ours, "status"), role
    finally:
        await asyncio.to_thread(send, plane, "DELETE", at)


async def answers_of_user(plane, embedded, path, body, user):
    """Send until the real server has read its roles: it watches them."""
    for _ in range(50):
        answers = await send_to_both(plane, embedded, "PUT", path, body, **user)
        if answered(answers[0], "status") == answered(answers[1], "status"):
            break
        await asyncio.sleep(0.1)
    return answers


def rights(resource, verb):
    group, name = "rbac.authorization.k8s.io", f"{resource}-{verb}".replace("/", "-")
    name = name.replace(":", "-")
    rule = {"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": [verb]}
    version, metadata = {"apiVersion": f"{group}/v1"}, {"metadata": {"name": name}}
    role = {**version, "kind": "ClusterRole", **metadata, "rules": [rule]}
    binding = {
        **version,
        "kind": "ClusterRoleBinding",
        **metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "writer"}],
    }
    path = f"/apis/{group}/v1"
    return (f"{path}/clusterroles", role), (f"{path}/clusterrolebindings", binding)


EXPRESSIONS = {
    "two loops over attributes": "{0}.exists(a, {0}.exists(b, a == b))",
    "a loop over capacity": 'device.capacity["a.com"].all(c, c != "x")',
    "optional": '{0}[?"a"].orValue(1) == 1',
    "semver": 'semver("v1.2", true).major() == 1',
    "quantity": 'quantity("1.5Gi") == quantity("1536Mi")',
    "any type": '{0}["a"]',
    "string functions": 'device.driver.lowerAscii().split(".").size() == 3',
    "number": "1 + 1",
    "unknown function": "device.driver.frobnicate()",
    "wrong argument": "quantity(1) == quantity(1)",
    "comparison of types": "device.driver < 1",
}


def expressions():
    """Return expressions to compile: ours, and those of upstream's own test."""
    yield from (text.format('device.attributes["a.com"]') for text in EXPRESSIONS.values())
    if vectors.present():
        records = vectors.in_scope("dra_cel.jsonl")
        used = dict.fromkeys(record.input["expression"] for record in records)
        # With list attributes off, upstream knows that no attribute can be looped over.
        yield from (text for text in used if ".name" not in text)


async def test_D020_both_servers_compile_the_same_expressions(plane, embedded):
    different = []
    for expression in expressions():
        body = device_class(selectors=[selector(expression)])
        real, ours = await send_to_both(plane, embedded, "POST", CLASSES + TEST, body)
        if answered(real, "spec") != answered(ours, "spec"):
            different.append((expression, answered(real, "spec"), answered(ours, "spec")))
    assert not different, "\n".join(map(str, different))
