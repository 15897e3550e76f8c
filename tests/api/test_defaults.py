"""Defaults equal those of kube-apiserver v1.36.2.

``data/defaults-v1.36.jsonl`` was recorded with ``dryRun=All`` against a real server with the
admission plugins switched off; what the server allocates or its storage adds (addresses, uids,
finalizers of protection) was left out.
"""

import copy
import json
from pathlib import Path

import pytest

from holdfast.api.defaults import default_object
from holdfast.runtime.errors import BadRequest

NOW = "2026-01-02T03:04:05Z"
RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "defaults-v1.36.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize(
    "record", RECORDED, ids=[f"{r['input']['kind']}-{i}" for i, r in enumerate(RECORDED)]
)
def test_defaults_equal_those_of_a_real_api_server(record):
    ours = copy.deepcopy(record["input"])
    default_object(ours, NOW)
    assert ours == record["answer"]


@pytest.mark.parametrize("record", RECORDED, ids=lambda r: r["input"]["kind"])
def test_defaulting_twice_changes_nothing(record):
    once = copy.deepcopy(record["answer"])
    default_object(once, "2030-01-01T00:00:00Z")
    assert once == record["answer"]


def test_an_invalid_quantity_is_a_decoding_error():
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "lots"}}}]},
    }
    with pytest.raises(BadRequest, match=r'^Pod in version "v1" cannot be handled as a Pod: quant'):
        default_object(pod)


def test_a_map_instead_of_a_list_is_a_decoding_error():
    with pytest.raises(BadRequest, match="cannot unmarshal object into Go struct field containers"):
        default_object({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": {}}})


def test_custom_resources_are_not_defaulted():
    raw = {"apiVersion": "a.example/v1", "kind": "Pod", "spec": {}}
    default_object(raw)
    assert raw == {"apiVersion": "a.example/v1", "kind": "Pod", "spec": {}}


def test_device_taints_get_no_time_if_none_is_given():
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "spec": {"devices": [{"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}]}]},
    }
    default_object(raw)
    assert "timeAdded" not in raw["spec"]["devices"][0]["taints"][0]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m"}}, "Guaranteed"),
    ],
)
def test_quality_of_service_follows_requests_and_limits(resources, expected):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }
    default_object(pod)
    assert pod["status"]["qosClass"] == expected
