"""Warnings about Koordinator's annotations and kinds; requests for GPUs that contradict."""

import json

import pytest

from apiserver.sample_objects import PODS, pod
from apiserver.server_fixture import start_server
from holdfast.api import koordinator_names as names
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.kinds.koordinator_checks import gpu_share_errors

TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
KOORDINATOR = "/apis/scheduling.koordinator.sh/v1alpha1"


def with_gpus(name, **amounts):
    requests = {f"koordinator.sh/{key.replace('_', '-')}": str(v) for key, v in amounts.items()}
    raw = pod(name)
    raw["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": requests}
    return raw


def annotated(obj, **annotations):
    obj["metadata"]["annotations"] = annotations
    return obj


def topology(name, **more):
    return {"metadata": {"name": name}, "topologyPolicies": ["None"], "zones": [], **more}


def device(name, *devices):
    return {"metadata": {"name": name}, "spec": {"devices": list(devices)}}


def job(job_name, **pod_ref):
    return {"metadata": {"name": job_name}, "spec": {"podRef": pod_ref}}


CASES = [
    (PODS, pod("plain"), ""),
    (PODS, with_gpus("half", gpu=50), ""),
    (PODS, with_gpus("odd", gpu=150), "the pod cannot be scheduled: invalid resource unit koord"),
    (
        PODS,
        with_gpus("alone", gpu_core=50),
        "cannot be scheduled: invalid resource device requests",
    ),
    (
        PODS,
        annotated(pod("spec"), **{names.RESOURCE_SPEC: "{"}),
        f"the pod cannot be scheduled: annotation {names.RESOURCE_SPEC}: ",
    ),
    (
        PODS,
        annotated(pod("numa"), **{names.NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy":"All"}'}),
        "numaTopologyPolicy: one of",
    ),
    (
        PODS,
        annotated(with_gpus("hint", gpu=100), **{names.DEVICE_ALLOCATE_HINT: "[]"}),
        "invalid DeviceAllocateHint annotation",
    ),
    (TOPOLOGIES, topology("n1"), ""),
    (
        TOPOLOGIES,
        annotated(topology("n2"), **{names.CPU_TOPOLOGY: "[" * 9000}),
        f"counts as absent: annotation {names.CPU_TOPOLOGY}: ",
    ),
    (f"{KOORDINATOR}/devices", device("n1", {"type": "gpu", "minor": 0, "health": True}), ""),
    (
        f"{KOORDINATOR}/devices",
        device("n2", {"type": "gpx", "minor": 0, "health": True}),
        'spec.devices[0].type: "gpx" is not used: one of gpu, rdma, fpga',
    ),
    (
        f"{KOORDINATOR}/devices",
        annotated(device("n3"), **{names.GPU_PARTITIONS: "{"}),
        f"metadata.annotations[{names.GPU_PARTITIONS}]: cannot be read",
    ),
    (f"{KOORDINATOR}/podmigrationjobs", job("j1", namespace="a", name="b"), ""),
    (
        f"{KOORDINATOR}/podmigrationjobs",
        job("j2", name="b"),
        "spec.podRef.namespace: is needed: the job will fail with reason InvalidPodRef",
    ),
]


async def test_what_the_scheduler_cannot_use_is_accepted_with_a_warning(api):
    for path, body, words in CASES:
        answer = await api.call("POST", path, body)
        assert answer.status == 201, answer.json
        said = json.loads(f'"{answer.headers.get("warning", "").removeprefix("299 - ")[1:-1]}"')
        assert words in said if words else not said, (body, said)


async def test_with_the_gate_such_pods_are_refused(tmp_path):
    gates = FeatureGates.parse("ValidatePodDeviceResource=true")
    async with start_server(tmp_path, feature_gates=gates) as api:
        answer = await api.call("POST", PODS, with_gpus("odd", gpu=150))
        assert answer.status == 422
        (cause,) = answer.json["details"]["causes"]
        assert cause["field"] == "spec.containers[0].resources.requests"
        assert (await api.call("POST", PODS, with_gpus("even", gpu=200))).status == 201


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ({"gpu": 200}, ""),
        ({"gpu": 0}, 'Invalid value: "0": the requested GPU must be greater than zero'),
        ({"gpu": 150}, 'Invalid value: "150": the requested GPU must be percentage of 100'),
        ({"gpu": "x"}, ""),
        ({"gpu": 100, "gpu.shared": 1}, "Forbidden: Forbidden declare GPU and GPU share"),
        ({"gpu.shared": 0, "gpu_memory": 1}, "must be greater than zero"),
        ({"gpu.shared": 2, "gpu_memory_ratio": 100, "gpu_core": 100}, ""),
    ],
)
def test_the_gate_refuses_shares_of_gpus_that_contradict(amounts, words):
    found = list(gpu_share_errors(with_gpus("p", **amounts)))
    assert len(found) == bool(words)
    for cause in found:
        assert cause.field == "spec.containers[0].resources.requests"
        assert words in cause.message
