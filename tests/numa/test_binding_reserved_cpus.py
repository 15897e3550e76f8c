"""Writing the CPUs of a reservation: failures, stale and malformed annotations, the end of it."""

import json

import pytest

from holdfast.api import koordinator_names as names
from holdfast.api.reservation_names import RESIZE
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.testing import Fault, FaultyTransport, a_reservation
from holdfast.testing.harness import Harness
from numa.reserving import LSR, add_node, cpus_of, cpuset, owner, reserve, reserved, stranger
from reservations.objects import WEB

STATUS = names.RESOURCE_STATUS


def failing(*faults):
    return lambda transport, clock: FaultyTransport(transport, list(faults), clock=clock)


@pytest.mark.parametrize("trouble", ["conflict", "unavailable", "unavailable_after", "lost"])
@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", "/reservations/r"), ("PUT", "/reservations/r/status")]
)
async def test_a_write_that_fails_leaves_no_CPUs_behind(tmp_path, trouble, method, path):
    fault = Fault(trouble, method=method, path=path)
    async with Harness(tmp_path, wrap=failing(fault)) as cluster:
        await add_node(cluster)
        await reserve(cluster, "r", "4", settled=False)
        await cluster.advance(60)
        assert await reserved(cluster, "r") == "0-3"
        assert await stranger(cluster, "p", "12") == "4-15"


async def test_annotations_of_another_reservation_are_replaced_or_removed(cluster):
    """Both were copied: one holds other CPUs now, the other none."""
    await add_node(cluster)
    stale = {STATUS: json.dumps({"cpuset": "12-15"})}
    for name, labels in (("bound", LSR), ("unbound", {})):
        copied = a_reservation(name, cpu="2", owner_labels=WEB, labels=labels, annotations=stale)
        await cluster.create(copied)
    assert await reserved(cluster, "bound") == "0-1"
    assert STATUS not in (await cluster.reservation("unbound")).metadata.annotations
    assert await stranger(cluster, "p", "8") == "8-15"


@pytest.mark.parametrize("text", ["[" * 500, '{"cpuset": 7}', '{"cpuset": "0-99999999"}', "null"])
async def test_malformed_annotations_hold_nothing(cluster, text):
    await add_node(cluster)
    assert await reserve(cluster, "r", "4", allocate_once=False) == "0-3"
    await cluster.client.patch(RESERVATIONS, "r", {"metadata": {"annotations": {STATUS: text}}})
    await cluster.settle()
    assert await owner(cluster, "p", "2") is not None
    await cluster.restart()
    assert await stranger(cluster, "q", "2") is not None


async def test_a_malformed_template_keeps_the_reservation_pending(cluster):
    await add_node(cluster)
    notes = {names.RESOURCE_SPEC: "[]"}
    await cluster.create(a_reservation("r", cpu="4", labels=LSR, annotations=notes))
    (condition,) = (await cluster.reservation("r")).status.conditions
    assert names.RESOURCE_SPEC in condition.message


async def test_the_CPUs_of_an_owner_that_leaves_are_reserved_again(cluster):
    await add_node(cluster)
    await reserve(cluster, "r", "4", allocate_once=False)
    assert [await owner(cluster, name, "2") for name in "pq"] == ["0-1", "2-3"]
    await cluster.delete(PODS, "p", "default")
    assert await stranger(cluster, "s", "8") == "8-15"
    assert await stranger(cluster, "t", "6") is None
    await cluster.delete(PODS, "t", "default")
    assert await owner(cluster, "u", "2") == "0-1"


async def test_a_deleted_reservation_frees_what_no_owner_has(cluster):
    await add_node(cluster)
    await reserve(cluster, "r", "4", allocate_once=False)
    assert await owner(cluster, "p", "2") == "0-1"
    assert await stranger(cluster, "q", "14") is None
    await cluster.delete(RESERVATIONS, "r")
    await cluster.advance(30)
    assert await cpuset(cluster, "q") == "2-15", "the end of the reservation requeues it"
    assert cpus_of(await cluster.pod("p")) == "0-1"


async def test_an_annotation_null_counts_as_absent(cluster):
    await add_node(cluster)
    empty = {names.RESOURCE_SPEC: "null", names.NUMA_TOPOLOGY_SPEC: " null ", STATUS: "null"}
    assert await stranger(cluster, "p", "2", annotations=empty) == "0-1"
    written = (await cluster.pod("p")).metadata.annotations[names.RESOURCE_SPEC]
    assert json.loads(written) == {"preferredCPUBindPolicy": "FullPCPUs"}


async def test_a_reservation_that_holds_CPUs_says_that_it_is_not_resized(cluster):
    await add_node(cluster)
    await reserve(cluster, "r", "4")
    for cpu, resized in (("6", ("False", "Invalid")), ("4", None)):
        notes = {RESIZE: json.dumps({"resources": {"cpu": cpu}})}
        await cluster.client.patch(RESERVATIONS, "r", {"metadata": {"annotations": notes}})
        await cluster.settle()
        found = await cluster.reservation("r")
        condition = found.condition("Resized")
        assert (condition and (condition.status, condition.reason)) == resized
        assert (cpus_of(found), dict(found.status.allocatable)) == ("0-3", {"cpu": "4"})


async def test_the_template_decides_unless_the_reservation_says_otherwise(cluster):
    """A template that was copied from a pod: its labels and policy count, its CPUs do not."""
    await add_node(cluster)
    spread = json.dumps({"requiredCPUBindPolicy": "SpreadByPCPUs"})
    copied = {names.RESOURCE_SPEC: spread, STATUS: json.dumps({"cpuset": "12-15"})}
    raw = a_reservation("r", cpu="2", owner_labels=WEB, allocate_once=False)
    raw["spec"]["template"]["metadata"] = {"labels": LSR, "annotations": copied}
    await cluster.create(raw)
    assert await reserved(cluster, "r") == "0,2"
    assert await owner(cluster, "p", "2", spec=json.loads(spread)) == "0,2"
    other = {"metadata": {**raw["metadata"], "name": "s", "labels": {names.QOS_CLASS: "LS"}}}
    await cluster.create({**raw, **other})
    assert await reserved(cluster, "s") is None, "its own label wins"
    assert STATUS not in (await cluster.reservation("s")).metadata.annotations
    assert await stranger(cluster, "q", "8") == "8-15"
