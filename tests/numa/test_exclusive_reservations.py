"""Reservations whose template asks for CPUs that others with the same policy must not be near."""

import json

from holdfast.api import koordinator_names as names
from holdfast.testing import a_node, a_reservation
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod, a_topology

SPEC = {
    "preferredCPUBindPolicy": "SpreadByPCPUs",
    "preferredCPUExclusivePolicy": "NUMANodeLevel",
}


async def test_the_exclusive_policy_of_a_template_holds_also_after_a_restart(tmp_path):
    async with Harness(tmp_path) as cluster:
        most = {names.NUMA_ALLOCATE_STRATEGY: "MostAllocated"}
        await cluster.create(a_topology("n"), a_node("n", cpu="16", memory="32Gi", labels=most))
        reservation = a_reservation("r", cpu="2")
        reservation["spec"]["template"]["metadata"] |= {
            "labels": {names.QOS_CLASS: "LSR"},
            "annotations": {names.RESOURCE_SPEC: json.dumps(SPEC)},
        }
        await cluster.create(reservation)
        assert await cpus(cluster.reservation("r")) == "0,2"
        await cluster.restart()
        await cluster.create(a_bound_pod("p", "2", spec=SPEC))
        assert await cpus(cluster.pod("p")) == "8,10", "the other NUMA node"


async def cpus(reading):
    found = await reading
    return json.loads(found.metadata.annotations[names.RESOURCE_STATUS])["cpuset"]
