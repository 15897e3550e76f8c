"""Messages for pods that fit no node are upstream's, byte for byte."""

from holdfast.testing import a_node, a_pod

NC = "no new claims to deallocate, preemption: "


async def fill(cluster, *, used):
    for i in range(3):
        await cluster.create(a_node(f"n{i}", cpu="4", memory="8Gi"), settle=False)
        if used:
            await cluster.create(a_pod(f"used-{i}", cpu=used, node=f"n{i}"), settle=False)
    await cluster.settle()


async def test_S020_preemption_cannot_help_a_pod_larger_than_every_node(cluster):
    await fill(cluster, used=None)
    await cluster.create(a_pod("p", cpu="5"))
    expected = (
        "0/3 nodes are available: 3 Insufficient cpu. "
        + NC
        + "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    assert await cluster.why("p") == expected
    condition = (await cluster.pod("p")).status.conditions[0]
    assert (condition.type, condition.status, condition.reason) == (
        "PodScheduled", "False", "Unschedulable",
    )  # fmt: skip
    assert ("FailedScheduling", expected) in await cluster.events("p")


async def test_S021_full_nodes_of_equal_priority_have_no_victims(cluster):
    await fill(cluster, used="3500m")
    await cluster.create(a_pod("p", cpu="1"))
    assert await cluster.why("p") == (
        "0/3 nodes are available: 3 Insufficient cpu. "
        + NC
        + "0/3 nodes are available: 3 No preemption victims found for incoming pod."
    )


async def test_S034_the_emptier_node_is_chosen(cluster):
    await cluster.create(
        a_node("a", cpu="4", memory="8Gi"),
        a_node("b", cpu="4", memory="8Gi"),
        a_pod("used", cpu="2", memory="2Gi", node="b"),
        a_pod("p", cpu="500m", memory="1Gi"),
    )
    assert await cluster.node_of("p") == "a"
