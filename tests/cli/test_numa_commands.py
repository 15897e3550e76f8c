"""``holdfast cpus``, ``devices`` and ``reservation free`` against an API server."""

import json

import pytest

from cli.conftest import with_client
from cli.numa_objects import a_gpu_holder, a_holder, gpu_share
from device_share.objects import a_device_object
from holdfast.api.koordinator_names import GPU
from holdfast.api.scheme import NODE_RESOURCE_TOPOLOGIES, PODS, SHARED_DEVICES
from holdfast.testing.numa_builders import a_topology


@pytest.fixture(scope="module")
def cluster(server):
    """An API server with one node n, its topology and its devices; return its kubeconfig."""

    async def create(client):
        await client.create(NODE_RESOURCE_TOPOLOGIES, a_topology("n"))
        await client.create(SHARED_DEVICES, a_device_object("n"))
        share = {"gpu": [gpu_share(0, 20, "3Gi")]}
        for pod in (a_holder("db", "0-3", cpu="4"), a_gpu_holder("half", share)):
            del pod["metadata"]["uid"]
            await client.create(PODS, pod, "default")

    with_client(server, create)
    return server


def test_cpus_draws_a_node_and_lists_all(holdfast, cluster):
    drawn = holdfast("cpus", "n", "--kubeconfig", cluster)
    assert (drawn.code, "   1 a    3 a    5 .    7 ." in drawn.out) == (0, True)
    assert "a   pod default/db   0-3" in drawn.out
    assert "\x1b" not in drawn.out  # no colours, on a terminal or not
    every = holdfast("cpus", "--kubeconfig", cluster)
    assert [line.split()[:3] for line in every.out.splitlines()[1:]] == [["n", "16", "12"]]


def test_cpus_are_printed_as_json(holdfast, cluster):
    one = json.loads(holdfast("cpus", "n", "-o", "json", "--kubeconfig", cluster).out)
    assert (one["node"], one["freeCPUs"]) == ("n", "4-15")
    (listed,) = json.loads(holdfast("cpus", "-o", "json", "--kubeconfig", cluster).out)
    assert (listed["node"], listed["free"]) == ("n", 12)


def test_an_unknown_node_is_an_error_with_the_names_of_nodes(holdfast, cluster):
    failed = holdfast("cpus", "x", "--kubeconfig", cluster)
    assert (failed.code, 'there is no node "x": there are n' in failed.err) == (1, True)


def test_devices_lists_what_pods_share(holdfast, cluster):
    text = holdfast("devices", "--kubeconfig", cluster).out
    assert "n      gpu 0    shared   80% 13Gi" in text
    assert "pod default/half   20% 3Gi" in text
    data = json.loads(holdfast("devices", "-o", "json", "--kubeconfig", cluster).out)
    assert [one["state"] for one in data["sharedDevices"]] == ["shared", "free"]
    none = holdfast("devices", "--kubeconfig", cluster, "--driver", "x").out
    assert none.strip() == "these flags choose no device"


def test_free_adds_up_the_devices_of_a_node(holdfast, cluster):
    free = holdfast("reservation", "free", "-r", GPU, "-o", "json", "--kubeconfig", cluster).out
    assert json.loads(free)[0][GPU] == {"has": 200, "used": 100, "reserved": 0, "free": 100}
