"""The parts of a spec that make pods different for scheduling, and the others."""

import pytest

from holdfast.state.columns.interner import CPU, ResourceNames
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing import a_pod, typed


def spec_key(**spec):
    return PodInfo.of(typed(a_pod(**spec)), ResourceNames()).spec_key


def token(name):
    """The volume that Kubernetes adds to every pod, under a name made up for it."""
    return {"name": name, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


def test_token_volumes_make_no_difference_between_pods():
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
def test_volumes_that_restrict_nodes_make_a_difference(volume):
    plain, other = [token("t")], [token("t"), volume]
    assert spec_key(volumes=other) != spec_key(volumes=plain)
    assert spec_key(volumes=other) != spec_key(volumes=[volume | {"name": "w"}])


@pytest.mark.parametrize(
    "spec", [{"cpu": "2"}, {"node_selector": {"a": "b"}}, {"priority": 5}, {"host_network": True}]
)
def test_what_matters_to_scheduling_makes_a_difference(spec):
    assert spec_key(**spec) != spec_key()


def test_pods_of_a_workload_have_one_spec_key_on_any_node():
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
def test_only_a_status_that_differs_from_the_spec_counts(status, wanted):
    names = ResourceNames()
    assert millicores(a_pod("before", cpu="1"), names) == 1000
    resized = a_pod("p", cpu="1", node="n")
    resized["status"] = {"containerStatuses": [{"name": "main", **status}]}
    assert millicores(resized, names) == wanted
    assert millicores(a_pod("after", cpu="1"), names) == 1000


def test_an_amount_above_64_bits_has_its_own_spec_key():
    assert spec_key(requests={"cpu": 10**30}) != spec_key(requests={"cpu": 10**31})


def test_pods_with_claims_of_their_own_have_one_spec_key():
    one, two = ([{"name": "d", "resourceClaimName": name}] for name in ("a", "b"))
    assert spec_key(claims=one) == spec_key(claims=two) != spec_key()
    assert spec_key(claims=one) != spec_key(claims=[*one, {"name": "e", "resourceClaimName": "b"}])
