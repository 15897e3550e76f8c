"""The end-to-end cases of Koordinator's proposal, one test each, on nodes of 16 CPUs and 32Gi."""

from holdfast.testing import a_csi_node, a_volume, a_volume_claim, mounting
from reservations.objects import (
    allocated_from,
    create_each,
    held,
    is_pending,
    node,
    non_owner,
    owner,
    requested,
    running,
    status,
)

HOST = "kubernetes.io/hostname"
DB, MARK = {"app": "db"}, {"a": "b"}


def rule(kind, labels):
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


NEAR_DB = rule("podAffinity", DB)
APART = rule("podAntiAffinity", MARK)


async def by_the_database(cluster, **more):
    """Create three nodes, a database on the second, and a reservation with affinity to it."""
    await create_each(cluster, *[node(f"n{i}") for i in (1, 2, 3)])
    await create_each(cluster, running("1", "db", node="n2", labels=DB))
    await create_each(cluster, held(cpu="4", template=NEAR_DB, **more))


async def on_its_own(cluster, **more):
    """Create one node, and a reservation with anti-affinity to its own labels."""
    await create_each(cluster, node(), held(cpu="4", labels=MARK, template=APART, **more))


async def test_pod_affinity_the_owner_has_the_same(cluster):
    await by_the_database(cluster)
    await create_each(cluster, owner(**NEAR_DB))
    assert (await cluster.node_of("owner"), await allocated_from(cluster, "owner")) == ("n2", "r")


async def test_pod_affinity_several_owners_have_the_same(cluster):
    await by_the_database(cluster, allocate_once=False)
    await create_each(cluster, *[owner(name, **NEAR_DB) for name in ("a", "b", "c")])
    assert [await allocated_from(cluster, name) for name in ("a", "b", "c")] == ["r", "r", "r"]


async def test_pod_anti_affinity_the_owner_has_the_same(cluster):
    await on_its_own(cluster)
    await create_each(cluster, owner(labels=MARK, **APART))
    assert await allocated_from(cluster, "owner") == "r"


async def test_pod_anti_affinity_several_owners_have_the_same(cluster):
    await on_its_own(cluster, allocate_once=False)
    await create_each(cluster, *[owner(name, labels=MARK, **APART) for name in ("a", "b")])
    assert [await allocated_from(cluster, name) for name in ("a", "b")] == ["r", None]
    assert await is_pending(cluster, "b")


async def test_pod_affinity_a_non_owner_has_the_same(cluster):
    await by_the_database(cluster)
    await create_each(cluster, non_owner(**NEAR_DB))
    assert await cluster.node_of("stranger") == "n2"
    assert await allocated_from(cluster, "stranger") is None


async def test_pod_anti_affinity_a_non_owner_has_the_same(cluster):
    await on_its_own(cluster)
    await create_each(cluster, non_owner(labels=MARK, **APART))
    assert await is_pending(cluster, "stranger")


async def test_do_not_schedule_spread_as_many_owners_as_nodes(cluster):
    spread = {
        "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    names = ("1", "2", "3")
    await create_each(cluster, *[node(f"n{i}") for i in names])
    template = {"topologySpreadConstraints": [spread]}
    await create_each(
        cluster, *[held(f"r{i}", cpu="4", labels={"app": "web"}, template=template) for i in names]
    )
    await create_each(
        cluster, *[owner(f"o{i}", topology_spread_constraints=[spread]) for i in names]
    )
    assert {await cluster.node_of(f"o{i}") for i in names} == {"n1", "n2", "n3"}
    assert {await allocated_from(cluster, f"o{i}") for i in names} == {"r1", "r2", "r3"}


async def test_4000m_and_4Gi_the_owner_asks_for_the_same(cluster):
    await create_each(cluster, node(), held(cpu="4000m", memory="4Gi"))
    await create_each(cluster, owner(cpu="4000m", memory="4Gi"))
    assert await status(cluster) == ("Succeeded", {"cpu": "4", "memory": "4Gi"}, ["owner"])


async def test_4000m_and_4Gi_the_owner_asks_for_4000m(cluster):
    await create_each(cluster, node(), held(cpu="4000m", memory="4Gi"), owner(cpu="4000m"))
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, ["owner"])


async def test_4000m_and_4Gi_the_owner_asks_for_4000m_and_1Gi(cluster):
    await create_each(cluster, node(), held(cpu="4000m", memory="4Gi"))
    await create_each(cluster, owner(cpu="4000m", memory="1Gi"))
    assert await status(cluster) == ("Succeeded", {"cpu": "4", "memory": "1Gi"}, ["owner"])


async def test_4000m_the_owner_asks_for_4000m_and_1Gi(cluster):
    await create_each(cluster, node(), held(cpu="4000m"), owner(cpu="4000m", memory="1Gi"))
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, ["owner"])


async def test_4000m_the_owner_asks_for_6000m(cluster):
    await create_each(cluster, node(), held(cpu="4000m"), owner(cpu="6000m"))
    assert await status(cluster) == ("Succeeded", {"cpu": "6"}, ["owner"])


async def test_8000m_reusable_two_owners_ask_for_4000m_each(cluster):
    await create_each(cluster, node(), held(cpu="8000m", allocate_once=False))
    await create_each(cluster, *[owner(name, cpu="4000m") for name in ("a", "b")])
    assert await status(cluster) == ("Available", {"cpu": "8"}, ["a", "b"])
    assert requested(cluster) == 8000


async def test_6000m_reusable_two_owners_ask_for_4000m_each(cluster):
    await create_each(cluster, node(), held(cpu="6000m", allocate_once=False))
    await create_each(cluster, *[owner(name, cpu="4000m") for name in ("a", "b")])
    assert await status(cluster) == ("Available", {"cpu": "8"}, ["a", "b"])
    assert requested(cluster) == 8000


async def test_4000m_a_non_owner_asks_for_4000m(cluster):
    await create_each(cluster, node(), held(cpu="4000m"), running("12"), non_owner(cpu="4000m"))
    assert "1 Insufficient cpu" in await cluster.why("stranger")


async def test_4000m_an_owner_and_a_non_owner_ask_for_2000m_each(cluster):
    await create_each(cluster, node(), held(cpu="4000m"), running("12"))
    await create_each(cluster, owner(cpu="2000m"), non_owner(cpu="2000m"))
    assert await allocated_from(cluster, "owner") == "r"
    # It has succeeded, and the rest is free for all pods.
    assert await cluster.node_of("stranger") == "n1"


async def test_three_ports_two_owners_take_one_each(cluster):
    await create_each(cluster, node(), held(cpu="4", ports=(7777, 8888, 9999), allocate_once=False))
    await create_each(cluster, owner("a", ports=[7777]), owner("b", ports=[8888]))
    assert [await allocated_from(cluster, name) for name in ("a", "b")] == ["r", "r"]


async def test_one_port_in_each_of_two_reservations_two_owners_take_one_each(cluster):
    await create_each(cluster, node(), held("a", ports=[7777]), held("b", ports=[8888]))
    await create_each(cluster, owner("pod-a", ports=[7777]), owner("pod-b", ports=[8888]))
    assert [await allocated_from(cluster, f"pod-{name}") for name in "ab"] == ["a", "b"]


async def test_three_ports_a_non_owner_wants_one(cluster):
    await create_each(cluster, node(), held(ports=(7777, 8888, 9999)), non_owner(ports=[7777]))
    assert "didn't have free ports" in await cluster.why("stranger")


async def test_a_claim_for_one_pod_the_owner_has_the_same(cluster):
    volume = a_volume("v", claim_ref={"namespace": "default", "name": "data"})
    claim = a_volume_claim(volume="v", mode="ReadWriteOncePod")
    await create_each(cluster, node(), volume, claim, held(template={"volumes": mounting("data")}))
    await create_each(cluster, owner(volumes=mounting("data")))
    assert await allocated_from(cluster, "owner") == "r"


async def test_a_counted_volume_the_owner_has_the_same(cluster):
    volume = a_volume("v", claim_ref={"namespace": "default", "name": "data"})
    await create_each(cluster, node(), a_csi_node("n1", disk_example_com=1), volume)
    await create_each(
        cluster, a_volume_claim(volume="v"), held(template={"volumes": mounting("data")})
    )
    await create_each(cluster, owner(volumes=mounting("data")))
    assert await allocated_from(cluster, "owner") == "r"
