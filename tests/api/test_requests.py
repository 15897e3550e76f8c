"""Requests of pods beyond the parity vectors."""

from holdfast.api.decode import convert_object
from holdfast.api.pod import Pod
from holdfast.api.requests import PodResourcesOptions, pod_request
from holdfast.api.resource_names import is_counted


def pod(containers, **spec):
    status = spec.pop("status", {})
    named = [
        {"name": f"c{i}", "resources": {"requests": requests}}
        for i, requests in enumerate(containers)
    ]
    return convert_object({"spec": {"containers": named, **spec}, "status": status}, Pod)


def test_fractions_are_added_before_rounding():
    assert pod_request(pod([{"cpu": "500u"}, {"cpu": "500u"}])).amounts["cpu"] == 1


def test_a_request_of_zero_gets_no_default_for_scoring():
    asked = pod_request(pod([{"cpu": "0"}, {"memory": "0"}]))
    assert (asked.nonzero_millicores, asked.nonzero_bytes) == (100, 200 * 2**20)
    assert asked.amounts == {"cpu": 0, "memory": 0}


def test_a_pod_counts_the_old_resources_until_a_resize_is_complete():
    resized = pod(
        [{"cpu": "1"}],
        status={"containerStatuses": [{"name": "c0", "resources": {"requests": {"cpu": "3"}}}]},
    )
    assert pod_request(resized).amounts["cpu"] == 3000
    assert pod_request(resized, PodResourcesOptions(status=False)).amounts["cpu"] == 1000


def test_an_infeasible_resize_is_not_counted():
    refused = pod(
        [{"cpu": "8"}],
        status={
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            "containerStatuses": [
                {
                    "name": "c0",
                    "resources": {"requests": {"cpu": "1"}},
                    "allocatedResources": {"cpu": "2"},
                }
            ],
        },
    )
    assert pod_request(refused).amounts["cpu"] == 2000


def test_pod_level_requests_count_the_maximum_of_spec_and_status():
    resized = pod(
        [{"cpu": "1"}],
        resources={"requests": {"cpu": "2"}},
        status={"resources": {"requests": {"cpu": "5"}}, "allocatedResources": {"cpu": "4"}},
    )
    assert pod_request(resized).amounts["cpu"] == 5000


def test_only_resources_that_the_scheduler_counts_are_returned():
    asked = pod_request(pod([{"cpu": "1", "example.com/gpu": "2", "pods": "1", "odd": "1"}]))
    assert asked.amounts == {"cpu": 1000, "example.com/gpu": 2}


def test_which_resources_are_counted():
    counted = ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "a.b/c", "kubernetes.io/x",
               "attachable-volumes-aws-ebs"]  # fmt: skip
    ignored = ["pods", "storage", "requests.a.b/c", "a/b/c", "bad domain/x"]
    assert all(map(is_counted, counted))
    assert not any(map(is_counted, ignored))
