"""Controllers that run twice, in the scheduler's process and alone, do no harm."""

import pytest

from holdfast.api.deletion_cost import DELETION_COST
from holdfast.api.scheme import DEPLOYMENTS, RESERVATIONS, RESOURCE_POLICIES
from holdfast.testing import a_deployment, a_reservation
from policies.costs import RecordedWrites, costs, marks, set_cost, status
from policies.objects import WEB, edit_policy, event_messages, od, pod, policy, spot
from policies.second_controllers import PROFILES, second_controllers


@pytest.fixture
async def writes():
    return RecordedWrites()


@pytest.fixture
async def cluster(start, writes):
    made = await start(wrap=writes.wrap, profiles=PROFILES)
    async with second_controllers(made, writes):
        yield made


async def test_costs_and_status_are_the_same_as_with_one(cluster, writes):
    await cluster.create(policy(), a_deployment("web", replicas=6, namespace=WEB, cpu="1"))
    await cluster.advance(10)
    assert await costs(cluster) == {"a": ["200"] * 2, "b": ["100"] * 3, "c": ["0"]}
    await edit_policy(cluster, units=[od(priority=1), spot(priority=9)])
    await cluster.advance(10)
    assert await costs(cluster) == {"a": ["100"] * 2, "b": ["200"] * 3, "c": ["0"]}
    patch = {"spec": {"replicas": 3}}
    await cluster.client.patch(DEPLOYMENTS, "web", patch, WEB, subresource="scale")
    await cluster.advance(40)
    assert await costs(cluster) == {"b": ["200"] * 3}
    assert (await status(cluster)).usage == "od 0/2, spot 3/3"
    await cluster.delete(RESOURCE_POLICIES, "p", WEB)
    await cluster.advance(10)
    assert await costs(cluster) == {"b": [None] * 3}


async def test_neither_answers_a_write_of_the_other_with_a_write(cluster, writes):
    await cluster.create(policy(), *(pod(f"w{i}") for i in range(6)))
    await cluster.create(a_reservation("r", cpu="1", ttl="30s"))
    await cluster.advance(120)
    assert (await cluster.reservation("r")).phase == "Failed"
    writes.seen.clear()
    await cluster.advance(120)
    assert writes.of("/pods/") == writes.of("resourcepolicies") == writes.of("reservations") == []


async def test_a_cost_that_a_user_set_or_takes_over_stays(cluster):
    await cluster.create(policy(), pod("mine", node="a1", annotations={DELETION_COST: "777"}))
    await cluster.create(pod("w0"))
    await cluster.advance(5)
    assert await marks(cluster, "mine") == ("777", None, None)
    assert (await marks(cluster, "w0"))[0] == "200"
    await set_cost(cluster, "w0", "5")
    await cluster.advance(5)
    assert await marks(cluster, "w0") == ("5", None, None)
    assert len(await event_messages(cluster, "DeletionCostManual", "mine")) <= 2


async def test_ended_reservations_are_deleted_once(cluster):
    await cluster.create(a_reservation("r", cpu="1", ttl="30s"))
    await cluster.advance(500)
    assert not (await cluster.client.list(RESERVATIONS)).items
