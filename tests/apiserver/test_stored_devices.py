"""Devices, classes and claims that were stored before the rules, and expensive expressions."""

from copy import deepcopy

import pytest

from apiserver.device_requests import FORBIDDEN, TOO_MANY, refused, write_status
from apiserver.direct_store import write_directly
from holdfast.server.store import ObjectKey
from validation.device_builders import (
    CLAIMS,
    CLASSES,
    SLICES,
    alternative,
    claim,
    device,
    device_class,
    exactly,
    first_available,
    selector,
    slice_of,
)
from validation.device_objects import BAD_CLASSES
from validation.device_statuses import consumer, pod, result, status


async def write_object(api, path, body):
    """Store an object as a server without the rules may have stored it."""
    plural = path.rpartition("/")[2]
    key = ObjectKey("resource.k8s.io", plural, "default" if "default" in path else "", "one")
    await write_directly(api.store, key, deepcopy(body))


OLD_SLICE = slice_of(
    *[device(f"d{i}", taints=[{"key": "k", "effect": "Old"}]) for i in range(70)],
    allNodes=True,
)
OLD_CLASS = BAD_CLASSES["unknown field"]
OLD_CLAIM = claim(exactly("Bad", allocationMode="Some"), constraints=[{}])


@pytest.mark.parametrize(
    "path, body", [(SLICES, OLD_SLICE), (CLASSES, OLD_CLASS), (CLAIMS, OLD_CLAIM)]
)
async def test_what_was_wrong_with_a_stored_object_stays_allowed(api, path, body):
    await write_object(api, path, body)
    stored = (await api.call("GET", f"{path}/one")).json
    stored["metadata"]["labels"] = {"seen": "yes"}
    answer = await api.call("PUT", f"{path}/one", stored)
    assert answer.status == 200, answer.body
    assert (await api.call("DELETE", f"{path}/one")).status == 200


async def test_an_update_of_an_old_slice_is_checked_where_it_changes(api):
    await write_object(api, SLICES, OLD_SLICE)
    stored = (await api.call("GET", f"{SLICES}/one")).json
    stored["spec"]["devices"].pop()
    answer = await api.call("PUT", f"{SLICES}/one", stored)
    assert answer.status == 200, answer.body
    stored = answer.json
    stored["spec"]["devices"] = [device("A"), *stored["spec"]["devices"]]
    found = await refused(api, f"{SLICES}/one", stored, "PUT")
    assert found == [("spec.devices", TOO_MANY)]


async def test_the_status_of_an_old_claim_can_be_written(api):
    await write_object(api, CLAIMS, OLD_CLAIM)
    stored = (await api.call("GET", f"{CLAIMS}/one")).json
    answer = await write_status(api, stored, status(result(request="Bad")))
    assert answer.status == 422  # the name of a request must be a label, also here
    answer = await write_status(api, stored, {"allocation": {"devices": {}}})
    assert answer.status == 200, answer.body


async def test_expressions_that_take_long_to_compile_are_refused_at_once(api):
    """As much as fits into one request; each would take half a second."""
    entries = ",".join(f"{i}:1" for i in range(1200))
    costly = [selector(f"{{{entries}}}.size() > {i}") for i in range(32)]
    long = [selector(f"{' ' * 10000}{i} > 0") for i in range(32)]
    for selectors, field in (
        (costly[:1], "spec.selectors[0].cel.expression"),
        (long, "spec.selectors"),
    ):
        found = await refused(api, CLASSES, device_class(selectors=selectors))
        assert found == [(field, FORBIDDEN)]
    numbers = iter(range(8192))
    short = [[selector(f"{next(numbers)}<1") for _ in range(32)] for _ in range(256)]
    requests = [
        first_available(
            *[alternative(f"a{j}", selectors=short.pop()) for j in range(8)], name=f"r{i}"
        )
        for i in range(32)
    ]
    for body in (claim(*[exactly(f"r{i}", selectors=costly) for i in range(8)]), claim(*requests)):
        assert await refused(api, CLAIMS, body) == [("spec.devices.requests", FORBIDDEN)]


UNREADABLE_CLAIM = claim(exactly(capacity={"requests": {"memory": "200K"}}))


async def test_an_amount_that_cannot_be_read_does_not_keep_an_old_object_from_changing(api):
    old = slice_of(device(capacity={"memory": {"value": "200K"}}))
    await write_object(api, SLICES, old)
    await write_object(api, CLAIMS, UNREADABLE_CLAIM)
    for path in (SLICES, CLAIMS):
        stored = (await api.call("GET", f"{path}/one")).json
        stored["metadata"]["labels"] = {"seen": "yes"}
        answer = await api.call("PUT", f"{path}/one", stored)
        assert answer.status == 200, answer.body
    written = await write_status(api, UNREADABLE_CLAIM, status())
    assert written.status == 200, written.body
    stored = (await api.call("GET", f"{SLICES}/one")).json
    stored["spec"]["devices"][0]["capacity"]["memory"]["value"] = "300K"
    answer = await api.call("PUT", f"{SLICES}/one", stored)
    assert (answer.status, "cannot be handled" in answer.json["message"]) == (400, True)


async def test_an_allocation_without_defaults_counts_as_unchanged(api):
    """An earlier build set no operators of tolerations, and accepted any consumer."""
    stored = status(
        result(tolerations=[{"key": "k"}], consumedCapacity={"memory": "1024Mi"}),
        reserved=[{"uid": "1"}, consumer("2")],
    )
    await write_object(api, CLAIMS, {**claim(), "status": stored})
    body = (await api.call("GET", f"{CLAIMS}/one")).json
    body["status"]["reservedFor"].pop()
    answer = await api.call("PUT", f"{CLAIMS}/one/status", body)
    assert answer.status == 200, answer.body
    merge = {"content-type": "application/merge-patch+json"}
    patch = {"status": {"reservedFor": []}}
    answer = await api.call("PATCH", f"{CLAIMS}/one/status", patch, headers=merge)
    assert answer.status == 200, answer.body


async def test_a_deployment_whose_pods_are_refused_today_can_be_scaled_and_corrected(api):
    path = "/apis/apps/v1/namespaces/default/deployments"
    spec = pod(requests={"example.com/gpu": "1"})["spec"]
    spec["containers"][0]["resources"].pop("limits")
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "one"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    await write_directly(api.store, ObjectKey("apps", "deployments", "default", "one"), body)
    merge = {"content-type": "application/merge-patch+json"}
    answer = await api.call("PATCH", f"{path}/one", {"spec": {"replicas": 2}}, headers=merge)
    assert answer.status == 200, answer.body
    stored = answer.json
    amounts = {"example.com/gpu": "2"}
    resources = stored["spec"]["template"]["spec"]["containers"][0]["resources"]
    resources["limits"] = amounts
    assert (await api.call("PUT", f"{path}/one", stored)).status == 422
    resources["requests"] = amounts
    assert (await api.call("PUT", f"{path}/one", stored)).status == 200
