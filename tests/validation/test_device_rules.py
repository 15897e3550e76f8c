"""The rules of devices as functions: any stored object may be compared with, and stays allowed."""

import pytest

from apiserver.mutants import mutants
from holdfast.api.validation.device_amounts import check_claim_amounts, check_slice_amounts
from holdfast.api.validation.device_class import check_device_class
from holdfast.api.validation.json_fields import is_same, shortened
from holdfast.api.validation.pod_claims import check_pod_claim_status
from holdfast.api.validation.resource_claim_status import check_claim_status
from holdfast.api.validation.resource_slice import check_slice
from validation.device_builders import CLASSES, SLICES, claim
from validation.device_objects import BAD_CLASSES, FULL
from validation.device_statuses import (
    BAD_POD_STATUSES,
    GOOD_POD_STATUSES,
    POD,
    SHARE,
    consumer,
    device_status,
    result,
    status,
)
from validation.slice_objects import BAD_SLICES

CHECKS = {
    SLICES: (check_slice, BAD_SLICES["no driver"]),
    CLASSES: (check_device_class, BAD_CLASSES["no cel"]),
}
STATUS = {
    **status(result(shareID=SHARE, consumedCapacity={"memory": "1"}), reserved=[consumer()]),
    "devices": device_status()["devices"],
}


@pytest.mark.parametrize("name", [name for name, (path, _) in FULL.items() if path in CHECKS])
def test_a_stored_object_may_have_any_shape(name):
    path, body = FULL[name]
    check, bad = CHECKS[path]
    for _, stored in mutants(body):
        list(check(bad, stored))
        list(check_slice_amounts(body, stored))


def test_the_stored_status_of_a_claim_may_have_any_shape():
    body = {**claim(), "status": {**STATUS, "devices": []}}
    for _, stored in mutants({**claim(), "status": STATUS}):
        list(check_claim_status(body, stored))
        list(check_claim_amounts(body, stored))
    for _, stored in mutants({**claim(), "status": STATUS}):
        spec = stored.get("spec")
        list(check_claim_status({**body, "spec": spec}, claim()))


def test_the_stored_status_of_a_pod_may_have_any_shape():
    whole = {key: value for good in GOOD_POD_STATUSES.values() for key, value in good.items()}
    bad = {**POD, "status": BAD_POD_STATUSES["bad claim"]}
    for _, stored in mutants({**POD, "status": whole}):
        list(check_pod_claim_status(bad, stored))


@pytest.mark.parametrize(
    "bad, check", [(BAD_SLICES, check_slice), (BAD_CLASSES, check_device_class)]
)
def test_what_is_stored_stays_allowed(bad, check):
    for name, body in bad.items():
        assert not list(check(body, body)), name


def test_absent_null_and_empty_values_are_the_same():
    assert is_same({"a": None, "b": {"c": []}}, {})
    assert not is_same({"a": 0}, {})
    assert not is_same([{}], [])


def test_long_keys_are_cut_in_the_middle():
    assert shortened("k" * 96, 96) == "k" * 96
    assert len(shortened("k" * 97, 96)) == 96
