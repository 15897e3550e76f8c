"""Deletion costs that several write at once: users, the scheduler, two controllers."""

from holdfast.api.deletion_cost import DELETION_COST
from holdfast.api.scheme import PODS
from holdfast.testing import a_namespace, a_node
from policies.costs import RecordedWrites, costs, marks, set_cost
from policies.objects import (
    WEB,
    delay_binds,
    edit_policy,
    event_messages,
    node_of,
    od,
    pod,
    policy,
    spot,
)
from policies.second_controllers import second_controllers
from policies.waiting_pods import with_permit

USERS = ("777", None, None)


def cost_writes(writes):
    """Return the writes to pods, without those to their status."""
    return [path for _, path in writes.of("/web/pods/") if not path.endswith("/status")]


async def test_P042_a_cost_that_a_user_sets_while_the_pod_waits_on_permit_stays(start):
    cluster, plugin = await with_permit(start)
    await cluster.create(pod(annotations={"Wait": "60"}))
    await set_cost(cluster, "w", "777")
    plugin.pod("w").allow("Wait")
    await cluster.settle()
    assert (await node_of(cluster))[0] == "a"
    assert await marks(cluster, "w") == USERS
    assert len(await event_messages(cluster, "DeletionCostManual")) == 1
    await set_cost(cluster, "w", None)  # and gives it back
    assert (await marks(cluster, "w"))[:2] == ("200", "200")


async def test_P042_also_if_it_is_set_while_the_binding_is_sent(governed, network):
    delay_binds(network, 5)
    await governed.create(pod(), settle=False)
    while not list(governed.world.nodes.pods()):
        await governed.clock.advance(0.1)
    assert await node_of(governed) == ""
    patch = {"metadata": {"annotations": {DELETION_COST: "777"}}}
    await governed.client.patch(PODS, "w", patch, WEB)
    await governed.advance(10)
    assert (await node_of(governed))[0] == "a"
    assert await marks(governed, "w") == USERS


async def test_P046_no_other_cost_is_written_before_the_excess_is_known(start):
    writes = RecordedWrites()
    large = a_node("a1", cpu="100", pods=1100, labels={"tier": "od"})
    nodes = [a_namespace(WEB), large]
    cluster = await start(args={"drainExcess": True}, wrap=writes.wrap, nodes=nodes)
    for i in range(400):
        await cluster.create(pod(f"w{i}", node="a1", cpu="1m"), settle=False)
    await cluster.create(policy(units=[od(max_count=1), spot()]))
    await cluster.advance(5)
    assert (await costs(cluster))["a"].count("-100") == 399
    assert len(cost_writes(writes)) == 400
    writes.seen.clear()
    await edit_policy(cluster, strategy="required")
    await cluster.restart_components()
    await cluster.advance(5)
    assert cost_writes(writes) == []


async def test_controllers_with_different_settings_do_not_write_without_end(start, caplog):
    writes = RecordedWrites()
    cluster = await start(args={"drainExcess": True}, wrap=writes.wrap)
    async with second_controllers(cluster, writes):
        await cluster.create(pod("w0", node="a1"), pod("w1", node="a1"))
        await cluster.create(policy(units=[od(max_count=1), spot()]))
        await cluster.advance(5)
        assert len(writes.of("/web/pods/w")) < 50
    assert "does another controller with other settings write it too?" in caplog.text
