"""What a pod asks of CPUs and NUMA nodes."""

import json

import pytest

from holdfast.api import koordinator_names as names
from holdfast.runtime.errors import BadRequest
from holdfast.state.numa.pod_request import NumaRequest, read_request


def ask(
    qos="LSR",
    cpu=4000,
    priority=None,
    spec=None,
    numa=None,
    default="FullPCPUs",
    priority_class=None,
):
    annotations = {}
    if spec is not None:
        annotations[names.RESOURCE_SPEC] = spec if isinstance(spec, str) else json.dumps(spec)
    if numa is not None:
        annotations[names.NUMA_TOPOLOGY_SPEC] = numa if isinstance(numa, str) else json.dumps(numa)
    found = {names.QOS_CLASS: qos} if qos else {}
    if priority_class is not None:
        found[names.PRIORITY_CLASS] = priority_class
    return read_request(found, annotations, priority, {"cpu": cpu, "memory": 2**30}, default)


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ({}, True),
        ({"qos": "LSE"}, True),
        ({"qos": "LS"}, False),
        ({"qos": ""}, False),
        ({"qos": "lsr"}, False),
        ({"cpu": 0}, False),
        ({"priority": 9500}, True),
        ({"priority": 5500}, False),
        ({"priority": 2147483647}, True),
        ({"priority": 5500, "priority_class": "koord-prod"}, True),
        ({"priority_class": "koord-batch"}, False),
        ({"default": ""}, False),
        ({"default": "", "spec": {"preferredCPUBindPolicy": "FullPCPUs"}}, True),
        ({"spec": {"preferredCPUBindPolicy": "ConstrainedBurst"}}, False),
        ({"qos": "LS", "spec": {"requiredCPUBindPolicy": "FullPCPUs"}}, False),
        ({"cpu": 2500}, True),
    ],
)
def test_which_pods_are_bound(options, bound):
    assert ask(**options).bound == bound


@pytest.mark.parametrize(
    ("spec", "default", "effective", "required"),
    [
        ({}, "FullPCPUs", "FullPCPUs", ""),
        ({"preferredCPUBindPolicy": "SpreadByPCPUs"}, "FullPCPUs", "SpreadByPCPUs", ""),
        ({"preferredCPUBindPolicy": "Default"}, "SpreadByPCPUs", "SpreadByPCPUs", ""),
        ({"requiredCPUBindPolicy": "Default"}, "SpreadByPCPUs", "SpreadByPCPUs", "SpreadByPCPUs"),
        (
            {"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUBindPolicy": "SpreadByPCPUs"},
            "FullPCPUs",
            "FullPCPUs",
            "FullPCPUs",
        ),
        (None, "FullPCPUs", "FullPCPUs", ""),
        ("null", "FullPCPUs", "FullPCPUs", ""),
        ({"preferredCPUBindPolicy": None, "unknown": 1}, "FullPCPUs", "FullPCPUs", ""),
    ],
)
def test_bind_policies(spec, default, effective, required):
    found = ask(spec=spec, default=default)
    assert (found.bind_policy, found.required_policy) == (effective, required)


def test_numa_policies():
    assert (ask().numa_policy, ask().numa_exclusive) == ("", "")
    single = ask(numa={"numaTopologyPolicy": "SingleNUMANode"})
    assert (single.numa_policy, single.numa_exclusive) == ("SingleNUMANode", "Required")
    shared = ask(numa={"numaTopologyPolicy": "Restricted", "singleNUMANodeExclusive": "Preferred"})
    assert (shared.numa_policy, shared.numa_exclusive) == ("Restricted", "Preferred")


@pytest.mark.parametrize(
    "options",
    [
        {"spec": "{"},
        {"spec": "[]"},
        {"spec": '{"requiredCPUBindPolicy":[]}'},
        {"spec": ""},
        {"spec": "[" * 100_000},
        {"spec": "\ud800"},
        {"numa": "{"},
        {"numa": {"numaTopologyPolicy": "Sometimes"}},
    ],
)
def test_a_malformed_annotation_is_named(options):
    name = names.RESOURCE_SPEC if "spec" in options else names.NUMA_TOPOLOGY_SPEC
    with pytest.raises(BadRequest, match=f"annotation {name}"):
        ask(**options)
    with pytest.raises(BadRequest, match=name):
        ask(qos="", **options)


def test_requests_are_equal_if_pods_need_the_same():
    assert ask() == ask(qos="LSE", priority=9100)
    assert hash(ask()) == hash(ask(qos="LSE"))
    assert ask() == NumaRequest((("cpu", 4000), ("memory", 2**30)), 4000, True, "FullPCPUs")
    assert ask().cpus == 4
