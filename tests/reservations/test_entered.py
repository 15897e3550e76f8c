"""A reservation that a pod enters which is not its owner says so."""

from holdfast.api.scheme import PODS
from reservations.objects import PREFIX, create_each, held, node, non_owner, owner, ready, status

IGNORING = {f"{PREFIX}/reservation-ignored": "true"}


async def test_a_reservation_entered_by_a_pod_that_ignores_it_is_overcommitted(cluster):
    await create_each(cluster, node(), held(cpu="8", allocate_once=False))
    await create_each(cluster, non_owner("beside", cpu="8", labels=IGNORING))
    assert await ready(cluster) == ("True", "Available")
    await create_each(cluster, non_owner("inside", cpu="7", labels=IGNORING))
    assert await cluster.node_of("inside") == "n1"
    assert await ready(cluster) == ("False", "Overcommitted")
    assert await status(cluster) == ("Available", {}, [])
    await cluster.delete(PODS, "inside", "default")
    assert await ready(cluster) == ("True", "Available")
    await create_each(cluster, owner(cpu="8"))
    assert await cluster.node_of("owner") == "n1"
