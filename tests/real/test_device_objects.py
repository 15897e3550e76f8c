"""Objects of resource.k8s.io on a real kube-apiserver: the embedded server gives its answers.

Both get the same objects; their answers must agree in status, fields, reasons and messages.
"""

import asyncio
import re

import pytest

from apiserver.server_fixture import start_server
from holdfast.validation.json_fields import is_same
from real.test_resource_policy_objects import send
from validation.device_objects import (
    BAD,
    GOOD,
    UNREADABLE,
)

pytestmark = pytest.mark.real
TEST = "?dryRun=All&fieldValidation=Strict"
_PRINTED = re.compile(r"^(Invalid|Duplicate) value: (\{.*\}|\[.*\]|null): ")
"""Go prints structs with the names of its own fields."""
_COMPILER = re.compile(r"compilation failed: .*", re.DOTALL)
"""The two CEL compilers have their own texts."""


@pytest.fixture(scope="module")
def plane(control_plane):
    return control_plane


@pytest.fixture
async def embedded(tmp_path):
    async with start_server(tmp_path) as running:
        yield running


async def send_to_both(plane, embedded, method, path, body):
    status, real = await asyncio.to_thread(send, plane, method, path, body)
    answer = await embedded.call(method, path, body)
    return (status, real), (answer.status, answer.json)


def errors(answer):
    """Return field, reason and message of every cause, in a fixed order: Go's maps have none."""
    return sorted(
        (cause.get("field", ""), cause["reason"], _comparable(cause["message"]))
        for cause in answer.get("details", {}).get("causes", ())
    )


def _comparable(message):
    return _COMPILER.sub("compilation failed", _PRINTED.sub(r"\1 value: ", message))


def differences(objects, answers):
    return {
        name: (real, ours)
        for name, (real, ours) in zip(objects, answers, strict=True)
        if real != ours
    }


async def refusals(plane, embedded, path, objects):
    found = []
    for body in objects.values():
        answers = await send_to_both(plane, embedded, "POST", path + TEST, body)
        found.append([(status, errors(answer)) for status, answer in answers])
    return found


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.rpartition("/")[2])
async def test_both_servers_refuse_the_same_objects_with_the_same_errors(plane, embedded, path):
    found = await refusals(plane, embedded, path, BAD[path])
    assert {status for (status, _), _ in found} == {422}
    different = differences(BAD[path], found)
    assert not different, "\n".join(f"{name}\n  {a}\n  {b}" for name, (a, b) in different.items())


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.rpartition("/")[2])
async def test_both_servers_accept_the_same_objects_and_set_the_same_defaults(
    plane, embedded, path
):
    for name, body in GOOD[path].items():
        real, ours = await send_to_both(plane, embedded, "POST", path + TEST, body)
        assert (real[0], ours[0]) == (201, 201), (name, real[1], ours[1])
        for part in ("spec", "status"):
            pair = [without_times(answer.get(part)) for _, answer in (real, ours)]
            assert is_same(*pair), (name, *pair)


def without_times(value):
    """Return JSON without the times that the servers set."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k != "timeAdded"}
    return [without_times(one) for one in value] if isinstance(value, list) else value


async def test_both_servers_cannot_read_the_same_objects(plane, embedded):
    for name, (path, body) in UNREADABLE.items():
        real, ours = await send_to_both(plane, embedded, "POST", path + TEST, body)
        assert (real[0], ours[0]) == (400, 400), (name, real[1], ours[1])
