"""What makes pods alike: everything of the spec that can matter, and nothing else."""

import pytest

from holdfast.columns.interner import CPU, ResourceNames
from holdfast.columns.pod_info import PodInfo
from holdfast.testing import a_pod, typed


def spec_key(**spec):
    return PodInfo.of(typed(a_pod(**spec)), ResourceNames()).spec_key


def token(name):
    """The volume that Kubernetes adds to every pod, under a name made up for it."""
    return {"name": name, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


def test_the_token_volume_of_each_pod_makes_no_class_of_its_own():
    assert spec_key(volumes=[token("kube-api-access-1")]) == spec_key(
        volumes=[token("kube-api-access-2")]
    )


@pytest.mark.parametrize(
    "volume",
    [
        {"name": "v", "persistentVolumeClaim": {"claimName": "data-0"}},
        {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "s"}}}},
    ],
)
def test_a_volume_that_decides_where_a_pod_may_run_tells_pods_apart(volume):
    plain, other = [token("t")], [token("t"), volume]
    assert spec_key(volumes=other) != spec_key(volumes=plain)
    assert spec_key(volumes=other) != spec_key(volumes=[volume | {"name": "w"}])


@pytest.mark.parametrize(
    "spec", [{"cpu": "2"}, {"node_selector": {"a": "b"}}, {"priority": 5}, {"host_network": True}]
)
def test_what_can_matter_tells_pods_apart(spec):
    assert spec_key(**spec) != spec_key()


def test_pods_of_a_workload_are_of_one_shape_wherever_they_stand():
    assert spec_key(node="n1") == spec_key(node="n2") == spec_key()


def millicores(pod, names):
    (amount,) = [a for resource, a in PodInfo.of(typed(pod), names).request if resource == CPU]
    return amount


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"resources": {"requests": {"cpu": "1"}}}, 1000),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}, 1000),
        ({"resources": {"requests": {"cpu": "1000m"}}}, 1000),
        ({"resources": {"requests": {"cpu": "3"}}}, 3000),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}}, 2000),
    ],
)
def test_a_status_that_repeats_the_spec_changes_nothing_and_another_counts(status, wanted):
    names = ResourceNames()
    assert millicores(a_pod("before", cpu="1"), names) == 1000
    resized = a_pod("p", cpu="1", node="n")
    resized["status"] = {"containerStatuses": [{"name": "main", **status}]}
    assert millicores(resized, names) == wanted
    assert millicores(a_pod("after", cpu="1"), names) == 1000


def test_an_amount_beyond_64_bits_has_a_shape_of_its_own():
    assert spec_key(requests={"cpu": 10**30}) != spec_key(requests={"cpu": 10**31})
