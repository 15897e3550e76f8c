"""What makes pods alike: everything of the spec that can matter, and nothing else."""

import pytest

from holdfast.columns.interner import ResourceNames
from holdfast.columns.pod_facts import PodFacts
from holdfast.testing import a_pod, typed


def shape(**spec):
    return PodFacts.of(typed(a_pod(**spec)), ResourceNames()).shape


def token(name):
    """The volume that Kubernetes adds to every pod, under a name made up for it."""
    return {"name": name, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


def test_the_token_volume_of_each_pod_makes_no_class_of_its_own():
    assert shape(volumes=[token("kube-api-access-1")]) == shape(
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
    assert shape(volumes=other) != shape(volumes=plain)
    assert shape(volumes=other) != shape(volumes=[volume | {"name": "w"}])


@pytest.mark.parametrize(
    "spec", [{"cpu": "2"}, {"node_selector": {"a": "b"}}, {"priority": 5}, {"host_network": True}]
)
def test_what_can_matter_tells_pods_apart(spec):
    assert shape(**spec) != shape()
