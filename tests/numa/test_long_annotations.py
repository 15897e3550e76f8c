"""Annotations with more than a node has."""

import json

from holdfast.api import koordinator_names as names
from holdfast.api.scheme import PODS
from holdfast.testing import a_pod
from numa.reserving import add_node


async def test_amounts_that_no_NUMA_node_has_leave_nothing_in_the_state(cluster):
    """States are remembered: a user could fill the memory of the scheduler with them."""
    await add_node(cluster, policy="BestEffort")
    await cluster.create(a_pod("p", cpu="1", node="n"))
    amounts = {"cpu": "1", **{f"example.com/{i}": "1" for i in range(1000)}}
    text = json.dumps({"numaNodeResources": [{"node": 0, "resources": amounts}]})
    body = {"metadata": {"annotations": {names.RESOURCE_STATUS: text}}}
    await cluster.client.patch(PODS, "p", body, "default")
    await cluster.settle()
    ledger = cluster.world.numa
    assert ledger.state(ledger.signature(0)).used == ((0, (("cpu", 1000),)),)
