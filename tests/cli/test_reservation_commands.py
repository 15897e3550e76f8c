"""``holdfast reservation``: what the commands read, create and print."""

import pytest

from holdfast.api.scheme import DEPLOYMENTS, PODS, RESERVATIONS
from holdfast.cli.connection import list_all
from holdfast.cli.reservation import free, listing
from holdfast.cli.reservation.creating import (
    FOR,
    ReservationFlags,
    create,
    placed,
    reservation_for,
    status_line,
)
from holdfast.cli.reservation.why import explain
from holdfast.cli.snapshot import built_in_profiles
from holdfast.cli.workloads import read_workload, workload
from holdfast.cli.world_building import build_world
from holdfast.runtime.errors import Refused
from holdfast.testing import a_deployment, a_node, a_pod, a_reservation
from holdfast.testing.harness import Harness

WEB = {"app": "web"}


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


async def reserve(cluster, replicas=1, target="deployment/web", **wish):
    body = reservation_for(
        await read_workload(cluster.client, target, "default"), ReservationFlags(**wish)
    )
    made = await create(cluster.client, body, replicas)
    await cluster.settle()
    return await placed(cluster.client, cluster.clock, made, 0, lambda _words: None)


async def why(cluster, name):
    found = await cluster.reservation(name)
    objects = await list_all(cluster.client)
    return explain(found, objects, built_in_profiles(), cluster.clock.now())


async def text_of(cluster):
    found = (await cluster.client.list(RESERVATIONS)).items
    return listing.as_text(sorted(found, key=lambda r: r.name), cluster.clock.now())


@pytest.mark.parametrize("kind", ["deployment", "deployments", "deploy", "Deployment"])
def test_workloads_are_named_as_kubectl_names_them(kind):
    assert workload(f"{kind}/web") == (DEPLOYMENTS, "web")


@pytest.mark.parametrize("text", ["web", "deployment/", "pod/web", "cronjob/web"])
def test_an_unknown_kind_is_rejected_with_the_list_of_kinds(text):
    with pytest.raises(Refused, match="deployment, replicaset, statefulset"):
        workload(text)


async def test_resources_are_reserved_for_future_replicas(cluster):
    await cluster.create(*[a_node(f"n{i}", cpu="4") for i in range(4)])
    await cluster.create(a_deployment("web", replicas=1, cpu="3"))
    found = await reserve(cluster, 3, ttl="1h")
    assert {r.phase for r in found} == {"Available"}
    assert len({r.status.node_name for r in found}) == 3
    assert all(r.name.startswith("web-") for r in found)
    assert status_line(found[0]).endswith(f"Available on {found[0].status.node_name}")
    await cluster.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, "default")
    await cluster.advance(5)
    phases = {r.phase for r in (await cluster.client.list(RESERVATIONS)).items}
    assert phases == {"Succeeded"}


async def test_the_reservation_has_the_template_and_selector_of_the_workload(cluster):
    gates = {"scheduling_gates": [{"name": "g"}], "node_selector": {"zone": "a"}}
    await cluster.create(a_deployment("web", cpu="3", scheduler_name="koord-scheduler", **gates))
    raw = await read_workload(cluster.client, "deployment/web", "default")
    made = reservation_for(
        raw, ReservationFlags(ttl="0", node="n1", policy="Restricted", reusable=True)
    )
    assert made["metadata"] == {
        "generateName": "web-", "labels": {FOR: "deployment.default.web"},
    }  # fmt: skip
    spec = made["spec"]
    assert spec["owners"] == [
        {"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": "web"}}}
    ]
    assert (spec["ttl"], spec["allocatePolicy"], spec["allocateOnce"]) == ("0", "Restricted", False)
    pod = spec["template"]["spec"]
    assert (pod["nodeName"], pod["schedulerName"]) == ("n1", "koord-scheduler")
    assert pod["nodeSelector"] == {"zone": "a"}
    assert "schedulingGates" not in pod
    assert spec["template"]["metadata"] == {"namespace": "default", "labels": {"app": "web"}}


async def test_a_missing_workload_is_reported(cluster):
    with pytest.raises(Refused, match='no Deployment "web" in namespace "default"'):
        await reserve(cluster)


async def test_the_reason_for_a_missing_node_is_printed(cluster):
    await cluster.create(a_node("n1", cpu="1"), a_deployment("web", replicas=0, cpu="3"))
    (found,) = await reserve(cluster)
    assert status_line(found).startswith(
        f"{found.name}: Pending: 0/1 nodes are available: 1 Insufficient cpu."
    )


async def test_the_list_shows_resources_owners_and_problems(cluster):
    await cluster.create(a_node("n1", cpu="8"))
    await cluster.create(
        a_reservation("held", cpu="4", owner_labels=WEB, allocate_once=False, ttl="90m"),
        a_reservation("more", cpu="9", owners=[{"controller": {"kind": "Job", "name": "j"}}],
                      ttl="0"),
        a_reservation("named", cpu="1", owners=[{"object": {"namespace": "a", "name": "p"}}]),
    )  # fmt: skip
    await cluster.create(a_pod("p", cpu="3", labels=WEB))
    head, held, more, named, trouble = (await text_of(cluster)).splitlines()
    assert head.split() == list(listing.HEAD)
    assert [w.strip() for w in held.split("  ") if w.strip()] == [
        "held", "Available", "n1", "app=web", "cpu 4", "cpu 3", "1", "in 1h30m",
    ]  # fmt: skip
    assert "job j" in more
    assert "never" in more
    assert "pod a/p" in named
    assert trouble.startswith("more: 0/1 nodes are available: 1 Insufficient cpu.")
    data = listing.as_data(await cluster.reservation("held"), cluster.clock.now())
    assert (data["held"], data["owners"]) == ({"cpu": "4"}, ["default/p"])
    assert data["endsInSeconds"] == 5400


async def test_why_repeats_the_decision_for_a_pending_reservation(cluster):
    await cluster.create(a_node("n1", cpu="8"), a_node("n2", cpu="8"), a_reservation("r", cpu="9"))
    answer = await why(cluster, "r")
    text = "\n".join(answer["lines"])
    assert text.startswith("r has no node, ends in 1h:\nr: 0/2 nodes are available: 2 Insufficient")
    assert "[NodeResourcesFit]: n1, n2" in text
    assert answer["decision"]["schedulable"] is False


async def test_why_names_its_users_and_pending_owners(cluster):
    await cluster.create(a_node("n1", cpu="8"))
    await cluster.create(a_reservation("r", cpu="4", owner_labels=WEB, allocate_once=False))
    await cluster.create(a_pod("in", cpu="4", labels=WEB), a_pod("big", cpu="9", labels=WEB))
    lines = (await why(cluster, "r"))["lines"]
    assert lines[0] == "r holds cpu 4 on n1 for app=web, ends in 1h"
    assert lines[1] == "  used: cpu 4\n    by default/in"
    assert lines[2].startswith("  default/big may use it and is pending: 0/1 nodes are available")
    spec = {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    await cluster.client.patch(RESERVATIONS, "r", {"spec": spec})
    text = "\n".join((await why(cluster, "r"))["lines"])
    assert "spec.unschedulable is set: no new owner may use it" in text
    assert "only owners that tolerate k=v:NoSchedule may use it" in text


async def test_why_says_how_it_ended(cluster):
    await cluster.create(a_node("n1", cpu="8"), a_reservation("r", cpu="1", ttl="5s"))
    await cluster.create(a_reservation("once", cpu="2", owner_labels=WEB))
    await cluster.create(a_pod("p", labels=WEB))
    await cluster.advance(120)
    assert (await why(cluster, "r"))["lines"] == [
        "r has ended: it expired 1m54s ago (ttl 5s is over, or its node is gone); "
        "its resources are free"
    ]
    (line,) = (await why(cluster, "once"))["lines"]
    assert line == "once has ended: default/p used it 2m ago, and it serves one pod only"


async def test_why_names_the_scheduler_that_must_place_it(cluster):
    await cluster.create(a_reservation("r", template={"scheduler_name": "theirs"}))
    (line,) = (await why(cluster, "r"))["lines"]
    assert "schedulerName is theirs; Holdfast schedules those of default-scheduler" in line


async def test_an_overcommitted_reservation_is_shown_by_why_and_list(cluster):
    await cluster.create(a_node("n1", cpu="8"), a_reservation("r", cpu="4", allocate_once=False))
    await cluster.create(a_pod("intruder", cpu="6", node="n1"), settle=False)
    await cluster.clock.settle()  # the invariants do not hold any more
    words = "Overcommitted: node n1 lacks reserved cpu: pods were bound there"
    assert any(line.startswith(f"  {words}") for line in (await why(cluster, "r"))["lines"])
    assert f"r: {words}" in (await text_of(cluster)).splitlines()[-1]
    await cluster.delete(PODS, "intruder", "default")
    assert "Overcommitted" not in await text_of(cluster)


async def test_free_shows_used_reserved_and_free_amounts(cluster):
    await cluster.create(a_node("n1", cpu="8", memory="16Gi"), a_node("n2", cpu="4", memory="8Gi"))
    await cluster.create(a_reservation("r", cpu="4", memory="4Gi", owner_labels=WEB,
                                       allocate_once=False, template={"node": "n1"}))  # fmt: skip
    await cluster.create(a_pod("in", cpu="3", labels=WEB), a_pod("out", cpu="1500m", node="n2"))
    world = build_world(await list_all(cluster.client))
    n1, n2 = free.node_resources(world, ("cpu", "memory"))
    assert n1["cpu"] == {"has": 8000, "used": 3000, "reserved": 1000, "free": 4000}
    assert n2["cpu"] == {"has": 4000, "used": 1500, "reserved": 0, "free": 2500}
    lines = free.as_text([n1, n2], ("cpu", "memory")).splitlines()
    assert lines[0].split() == [
        "NODE",
        *["CPU", "USED", "RESERVED", "FREE", "MEMORY", "USED", "RESERVED", "FREE"],
    ]
    assert lines[1].split() == ["n1", "8", "3", "1", "4", "16Gi", "0", "4Gi", "12Gi"]
    assert lines[3].split() == ["all", "nodes", "12", "4.5", "1", "6.5", "24Gi", "0", "4Gi",
                                "20Gi"]  # fmt: skip


async def test_free_shows_pod_slots(cluster):
    await cluster.create(a_node("n1", cpu="8", pods="10"))
    await cluster.create(a_reservation("r", cpu="4", requests={"pods": "3"}, owner_labels=WEB,
                                       allocate_once=False))  # fmt: skip
    await cluster.create(a_pod("in", labels=WEB), a_pod("out"))
    [n1] = free.node_resources(build_world(await list_all(cluster.client)), ("pods",))
    assert n1["pods"] == {"has": 10, "used": 2, "reserved": 2, "free": 6}


def test_the_commands_exist_and_have_help(holdfast):
    output = holdfast("reservation", "--help").out
    for command in ("create", "list", "why", "free"):
        assert command in output
    wrong = holdfast("reservation", "create")
    assert (wrong.code, "--for" in wrong.err) == (2, True)
