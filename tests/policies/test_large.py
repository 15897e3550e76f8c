"""All nodes are evaluated, however many there are."""

from holdfast.testing import a_namespace
from policies.objects import WEB, node, node_of, place, policy


async def test_P034_the_best_unit_is_found_among_500_nodes(start):
    nodes = [node(f"b{i}") for i in range(495)] + [node(f"a{i}") for i in range(5)]
    cluster = await start(nodes=[a_namespace(WEB), *nodes])
    await cluster.create(policy())
    assert cluster.world.nodes.row_of["a0"] > 490
    assert await place(cluster, 3) == ["a", "a", "b"]
    assert await node_of(cluster, "w0") != await node_of(cluster, "w1")
