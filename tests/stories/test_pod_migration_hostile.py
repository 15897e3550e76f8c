"""Migrations that cannot work: each ends with a clear reason, and leaves nothing behind."""

import pytest

from holdfast.api.scheme import DEPLOYMENTS, POD_MIGRATION_JOBS, RESERVATIONS
from holdfast.runtime.errors import Invalid
from holdfast.runtime.settings import MigrationSettings
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.testing import (
    a_claim_template,
    a_deployment,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_reservation,
    a_slice,
)
from holdfast.testing.harness import Harness
from stories.migrations import (
    EvictionWitness,
    a_budget,
    a_job,
    job_of,
    pods_of,
    reservations,
    result_of,
    web,
)

EVICT = {"descheduler.alpha.kubernetes.io/evict": "true"}


@pytest.fixture
async def cluster(tmp_path):
    configuration = Configuration(migration=MigrationSettings(evict_all_bare_pods=True))
    async with Harness(
        tmp_path / "store",
        wrap=lambda inner, _: EvictionWitness(inner),
        configuration=configuration,
    ) as harness:
        yield harness


async def end_of(cluster, job, *, seconds=30):
    await cluster.create(job, settle=False)
    await cluster.advance(seconds)
    found = await job_of(cluster)
    return found.phase, found.status.reason, found.status.message


async def test_a_bare_pod_fails_before_anything_is_reserved(cluster):
    await cluster.create(a_node("n1"), a_node("n2"), a_pod("p"))
    phase, reason, message = await end_of(cluster, a_job("j", await cluster.pod("p")))
    assert (phase, reason) == ("Failed", "ForbiddenMigratePod")
    assert message == (
        'Pod "default/p" has no controller that creates it again on another node, so nothing '
        "could use a reservation: set an owner with the name and namespace of the pod in "
        "spec.reservationOptions.template, or use mode EvictDirectly"
    )
    assert not await reservations(cluster)
    assert (await job_of(cluster)).status.conditions == ()


async def test_a_bare_pod_moves_to_a_reservation_that_the_user_gives(cluster):
    await cluster.create(a_node("n1"), a_pod("p", labels={"app": "x"}), a_node("n2"))
    owners = [{"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": "x"}}}]
    await cluster.create(a_reservation("r", owners=owners, template={"node": "n2"}))
    job = a_job("j", await cluster.pod("p"), reservationOptions={"reservationRef": {"name": "r"}})
    await cluster.create(job, settle=False)
    await cluster.advance(5)
    await cluster.create(a_pod("q", labels={"app": "x"}))
    await cluster.advance(10)
    job = await job_of(cluster)
    assert (job.phase, job.status.pod_ref.name) == ("Succeeded", "q")


async def test_a_running_pod_whose_replacement_has_its_name_moves(cluster):
    """As of a StatefulSet: owners by name do not mean that the pod waits for a node."""
    await cluster.create(a_node("n1"), a_pod("db-0"))
    owners = [{"object": {"namespace": "default", "name": "db-0"}}]
    job = a_job("j", await cluster.pod("db-0"), reservationOptions={
        "template": {"spec": {"owners": owners}}})  # fmt: skip
    await cluster.create(job, settle=False)
    await cluster.advance(5)
    assert (await job_of(cluster)).phase == "Running" and await cluster.pod("db-0")
    await cluster.create(a_node("n2"))
    await cluster.advance(10)
    await cluster.create(a_pod("db-0"))
    await cluster.advance(10)
    assert await cluster.node_of("db-0") == "n2"
    assert await result_of(cluster) == ("Succeeded", "")


@pytest.mark.parametrize("ref", [{}, {"name": "p"}, {"namespace": "default"}, {"uid": "u"}])
async def test_an_incomplete_reference_fails(cluster, ref):
    job = a_job("j", await web(cluster))
    job["spec"]["podRef"] = ref
    assert (await end_of(cluster, job))[:2] == ("Failed", "InvalidPodRef")


async def test_another_pod_of_the_name_is_not_moved(cluster):
    pod = await web(cluster)
    job = a_job("j", pod)
    job["spec"]["podRef"]["uid"] = "of-another-pod"
    assert (await end_of(cluster, job))[:2] == ("Failed", "MissingPod")
    assert (await cluster.pod(pod.name)).uid == pod.uid


@pytest.mark.parametrize("ref", [("a/b", "default"), ("..", "default"), ("a", "x/../../y")])
async def test_a_name_that_no_pod_can_have_fails(cluster, ref):
    job = a_job("j", await web(cluster))
    job["spec"]["podRef"] = dict(zip(("name", "namespace"), ref, strict=True))
    assert (await end_of(cluster, job))[:2] == ("Failed", "MissingPod")


REFERENCES = {
    "no name": ({"name": "../r"}, "MissingReservation", 'missing Reservation "/../r"'),
    "absent": ({"name": "absent"}, "MissingReservation", 'missing Reservation "/absent"'),
    "another uid": ({"name": "r", "uid": "u"}, "MissingReservation", 'missing Reservation "/r"'),
    "another kind": (
        {"kind": "Pod", "name": "r"},
        "MissingReservation",
        "reservationRef: a Pod is no Reservation",
    ),
    "of others": ({"name": "r"}, "ForbiddenMigratePod", 'Reservation "r" has no owner like Pod'),
}


@pytest.mark.parametrize("case", REFERENCES)
async def test_a_reference_to_something_else_fails(cluster, case):
    ref, reason, message = REFERENCES[case]
    pod = await web(cluster)
    await cluster.create(a_reservation("r", cpu="2", owner_labels={"app": "other"}))
    job = a_job("j", pod, reservationOptions={"reservationRef": ref})
    found = await end_of(cluster, job)
    assert found[:2] == ("Failed", reason)
    assert message in found[2]
    assert (await cluster.pod(pod.name)).uid == pod.uid
    assert (await cluster.reservation("r")).phase == "Available"  # it is not the job's to delete


async def test_a_given_reservation_is_used(cluster):
    pod = await web(cluster)
    await cluster.create(a_reservation("r", cpu="2", owner_labels={"app": "web"}))
    job = a_job("j", pod, reservationOptions={"reservationRef": {"name": "r"}})
    assert (await end_of(cluster, job))[:2] == ("Succeeded", "")
    held = await cluster.reservation("r")
    assert held.metadata.labels["scheduling.koordinator.sh/reservation-order"].isdigit()
    assert held.phase == "Succeeded"


async def test_a_reservation_on_the_node_of_the_pod_fails_the_job(cluster):
    pod = await web(cluster, others=())
    await cluster.create(a_reservation("r", cpu="2", owner_labels={"app": "web"}))
    job = a_job("j", pod, reservationOptions={"reservationRef": {"name": "r"}})
    phase, reason, message = await end_of(cluster, job)
    assert (phase, reason) == ("Failed", "ForbiddenMigratePod")
    assert "on the same node" in message


def _with_terms(terms):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": required}}}}}


TEMPLATES = [
    _with_terms("here"),
    _with_terms([7]),
    _with_terms([{"matchFields": "here"}]),
    {"spec": "text"},
    {"spec": {"owners": "text"}},
    {"spec": {"template": [1]}},
    {"spec": {"template": {"spec": 7}}},
    {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": "near"}}}}},
    {"metadata": 7},
    {"metadata": {"labels": []}},
    {"metadata": {"name": 7}},
    {"metadata": {"name": "Not A Name"}},
    {"spec": {"ttl": "soon"}},
]


@pytest.mark.parametrize("template", TEMPLATES, ids=str)
async def test_a_malformed_template_reserves_nothing(cluster, template):
    pod = await web(cluster)
    job = a_job("j", pod, ttl="60s", reservationOptions={"template": template})
    phase, reason, message = await end_of(cluster, job)
    assert (phase, reason) == ("Running", "FailedCreateReservation")
    assert message.startswith("Failed to create Reservation caused by ")
    await cluster.advance(31)
    assert await result_of(cluster) == ("Failed", "Timeout")
    assert not await reservations(cluster)
    assert (await cluster.pod(pod.name)).uid == pod.uid


async def test_a_template_that_is_no_object_is_refused(cluster):
    job = a_job("j", await web(cluster), reservationOptions={"template": 7})
    with pytest.raises(Invalid, match="must be of type object"):
        await cluster.create(job)


async def test_a_name_that_is_taken_is_not_adopted(cluster):
    pod = await web(cluster)
    await cluster.create(a_reservation("taken", cpu="1", owner_labels={"app": "other"}))
    template = {"metadata": {"name": "taken"}}
    job = a_job("j", pod, ttl="60s", reservationOptions={"template": template})
    assert (await end_of(cluster, job))[:2] == ("Running", "FailedCreateReservation")
    await cluster.advance(31)
    assert await result_of(cluster) == ("Failed", "Timeout")
    assert (await cluster.reservation("taken")).phase == "Available"


async def test_a_pod_of_another_scheduler_stays(cluster):
    pod = await web(cluster)
    raw = a_pod("theirs", node="n1", scheduler_name="theirs", metadata={"ownerReferences": [
        {"apiVersion": "example.com/v1", "kind": "Machine", "name": "m", "uid": "m",
         "controller": True}]}, annotations=EVICT)  # fmt: skip
    await cluster.create(raw)
    theirs = await cluster.pod("theirs")
    assert (await end_of(cluster, a_job("j", theirs, ttl="60s"), seconds=50))[0] == "Running"
    await cluster.advance(15)
    assert await result_of(cluster) == ("Failed", "Timeout")
    assert not await reservations(cluster)
    assert {p.name for p in await pods_of(cluster)} >= {pod.name}
    assert (await cluster.pod("theirs")).uid == theirs.uid


async def test_a_user_stops_a_job(cluster):
    """The phase Aborted is never written by the controller; a user may set it."""
    pod = await web(cluster, others=())
    await cluster.create(a_job("j", pod), settle=False)
    await cluster.advance(5)
    assert len(await reservations(cluster)) == 1
    stop = {"status": {"phase": "Aborted"}}
    await cluster.client.patch(POD_MIGRATION_JOBS, "j", stop, subresource="status")
    await cluster.create(a_node("n2"))
    await cluster.advance(30)
    assert not await reservations(cluster)
    assert (await cluster.pod(pod.name)).uid == pod.uid


async def test_a_pod_that_goes_away_while_there_is_no_room_ends_the_job(tmp_path):
    async with Harness(tmp_path / "store") as cluster:
        pod = await web(cluster, others=())
        await cluster.create(a_job("j", pod), settle=False)
        await cluster.advance(5)
        assert [held.phase for held in await reservations(cluster)] == ["Pending"]
        await cluster.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, "default")
        await cluster.advance(30)
        assert await result_of(cluster) == ("Failed", "MissingPod")
        assert not await reservations(cluster), "nothing could use it"


async def test_a_reservation_that_is_deleted_ends_the_job(cluster):
    pod = await web(cluster, others=())
    await cluster.create(a_job("j", pod), settle=False)
    await cluster.advance(5)
    (held,) = await reservations(cluster)
    await cluster.delete(RESERVATIONS, held.name)
    await cluster.create(a_node("n2"))
    await cluster.advance(5)
    job = await job_of(cluster)
    assert (job.phase, job.status.reason) == ("Failed", "MissingReservation")
    assert job.status.message == f'Abort job caused by missing Reservation "/{held.name}"'


async def test_a_reservation_that_expires_ends_the_job(cluster):
    pod = await web(cluster)
    await cluster.create(a_budget({"app": "web"}, minAvailable=3))
    options = {"template": {"spec": {"ttl": "30s"}}}
    found = await end_of(cluster, a_job("j", pod, reservationOptions=options), seconds=60)
    assert found == ("Failed", "ReservationExpired", "Reservation expired")
    assert not await reservations(cluster)
    assert (await cluster.pod(pod.name)).uid == pod.uid


async def test_a_pod_with_claims_stays(cluster):
    """A reservation cannot hold devices of claims; the job says so, and evicts nothing."""
    await cluster.create(
        a_device_class("gpu", driver="d.example.com"),
        a_claim_template("t", device_class="gpu"),
        a_node("n1"),
        a_slice("s", driver="d.example.com", node="n1", devices=[a_device("g0"), a_device("g1")]),
        a_deployment("web", replicas=2, claims=[{"name": "g", "resourceClaimTemplateName": "t"}]),
    )
    await cluster.advance(5)
    pod = (await pods_of(cluster))[0]
    assert pod.spec.node_name == "n1"
    await cluster.create(a_node("n2"))
    job = a_job("j", pod, ttl="60s")
    phase, reason, message = await end_of(cluster, job)
    assert (phase, reason) == ("Running", "Unschedulable")
    assert "ResourceClaims" in message
    await cluster.advance(31)
    assert await result_of(cluster) == ("Failed", "Timeout")
    assert not await reservations(cluster)
    assert (await cluster.pod(pod.name)).uid == pod.uid
