"""Devices, claims and classes with one wrong field: both servers give the same answer."""

import http.client

import pytest

from apiserver.mutants import mutants
from real.both_servers import answered, send_to_both
from validation.device_objects import FULL

pytestmark = pytest.mark.real
WRONG = (None, "x", -7, [], {}, [None], True, "", 0, 2**40, "A b", [{}], ["x", "x"])
EACH = 4
"""Of the wrong values each field gets some, the next field the ones after."""


@pytest.mark.parametrize("name", FULL)
async def test_both_servers_answer_objects_with_a_wrong_field_alike(control_plane, embedded, name):
    path, body = FULL[name]
    compared = 0
    for mutation, spec in mutants({"spec": body["spec"]}, WRONG, EACH):
        try:
            real, ours = await send_to_both(
                control_plane, embedded, "POST", f"{path}?dryRun=All", {**body, **spec}
            )
        except http.client.RemoteDisconnected:
            continue  # a step of 0 stops the request of the real server
        if (real[0], ours[0]) != (400, 400):
            pair = [without_empty_texts(answered(answer, "spec")) for answer in (real, ours)]
            assert pair[0] == pair[1], mutation
        compared += 1
    assert compared > 10


def without_empty_texts(value):
    """Return JSON without empty texts: Go leaves them out."""
    if isinstance(value, dict):
        return {k: without_empty_texts(v) for k, v in value.items() if v != ""}
    return [without_empty_texts(v) for v in value] if isinstance(value, list | tuple) else value
