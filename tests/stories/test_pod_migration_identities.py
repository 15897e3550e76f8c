"""A pod that is bound to CPUs and has part of a GPU moves to others, which are reserved for it."""

import json

from device_share.objects import a_device_object
from holdfast.api.koordinator_names import DEVICE_ALLOCATED, GPU, QOS_CLASS, RESOURCE_STATUS
from holdfast.api.reservation_names import ALLOCATED
from holdfast.api.scheme import DISRUPTION_BUDGETS
from holdfast.testing import a_deployment, a_node
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from stories.migrations import a_budget, a_job, conditions, job_of, pods_of, reservations


def identities(found):
    """Return the CPUs, and the minors with their percentage, of a pod or a reservation."""
    notes = found.metadata.annotations
    gpus = json.loads(notes[DEVICE_ALLOCATED])["gpu"]
    shares = [(gpu["minor"], gpu["resources"]["koordinator.sh/gpu-core"]) for gpu in gpus]
    return json.loads(notes[RESOURCE_STATUS])["cpuset"], shares


async def create_node(cluster, name):
    await cluster.create(a_node(name, cpu="16"), a_topology(name), a_device_object(name))


async def test_N045_the_new_pod_gets_the_cpus_and_the_gpu_of_the_reservation(cluster):
    await create_node(cluster, "n1")
    half = {GPU: "50"}
    await cluster.create(
        a_deployment("web", replicas=3, cpu="4", labels={QOS_CLASS: "LSR"}, requests=half)
    )
    await cluster.advance(5)
    by_cpus = {identities(p)[0]: p for p in await pods_of(cluster)}
    pod = by_cpus["0-3"]
    await create_node(cluster, "n2")
    # CPUs 0-3 and most of GPU 0 of n2 are used: what the pod has on n1 says nothing about n2.
    await cluster.create(
        a_bound_pod("first", "4", node_selector={"kubernetes.io/hostname": "n2"},
                    requests={GPU: "60"})
    )  # fmt: skip
    await cluster.create(a_budget({"app": "web"}, minAvailable=3))
    await cluster.create(a_job("j", pod, ttl="10m"), settle=False)
    await cluster.advance(10)
    (held,) = await reservations(cluster)
    assert (held.status.node_name, held.phase) == ("n2", "Available")
    stripped = held.spec.template.metadata.annotations
    assert not {RESOURCE_STATUS, DEVICE_ALLOCATED, ALLOCATED} & stripped.keys()
    assert identities(held) == ("8-11", [(1, "50")])
    assert identities(await cluster.pod(pod.name))[0] == "0-3"
    await cluster.client.delete(DISRUPTION_BUDGETS, "budget", "default")
    await cluster.advance(60)
    job = await job_of(cluster)
    assert job.phase == "Succeeded", await conditions(cluster)
    new = await cluster.pod(job.status.pod_ref.name)
    assert new.spec.node_name == "n2"
    assert identities(new) == identities(held)
