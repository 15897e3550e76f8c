"""Preemption where a filter fails with an error on some node: the other nodes are candidates."""

import pytest

from holdfast.api.scheme import PODS, PRIORITY_CLASSES
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_pod, a_slice
from holdfast.testing.builders import an_object

NODES, SOUND = 40, 33
DRIVER = "gpu.example.com"
ALL = [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]
BROKEN = f'device.attributes["{DRIVER}"].missing == 1'
ONE = [{"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": [
    {"cel": {"expression": BROKEN}}]}}]  # fmt: skip


def incomplete(node):
    """Return a slice of a pool of which another slice is not published yet."""
    made = a_slice(f"{node}-gpus", node=node, devices=1)
    made["spec"]["pool"]["resourceSliceCount"] = 2
    return made


def without_attribute(node):
    return a_slice(f"{node}-gpus", node=node, devices=[a_device("gpu-0")])


def sound(node):
    return a_slice(f"{node}-gpus", node=node, devices=[
        a_device("gpu-0", attributes={"missing": {"int": 1}})])  # fmt: skip


def wanting(requests, **fields):
    claims = [{"name": "dev", "resourceClaimName": "c"}]
    return a_claim("c", requests=requests), a_pod("p", claims=claims, **fields)


FAULTS = {"an incomplete pool": (incomplete, ALL), "a CEL error": (without_attribute, ONE)}


def a_priority(name, value):
    return an_object(PRIORITY_CLASSES, name, {}) | {"value": value}


@pytest.fixture
async def ranked(cluster):
    await cluster.create(
        a_priority("high", 100), a_priority("top", 200), a_device_class("gpu"),
    )  # fmt: skip
    return cluster


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_error_on_one_node_does_not_cancel_preemption_on_another(ranked, fault):
    broken, requests = FAULTS[fault]
    for number in range(NODES):
        node = f"n{number}"
        devices = sound(node) if number == SOUND else broken(node)
        await ranked.create(a_node(node, cpu="2"), devices, settle=False)
    await ranked.create(*(a_pod(f"low-{n}", cpu="2", node=f"n{n}") for n in range(NODES)))
    await ranked.advance(1)
    await ranked.create(*wanting(requests, cpu="2", priority_class_name="high"))
    # The victim is chosen in the first attempt, not only when all nodes were tried by and by.
    pods = (await ranked.client.list(PODS)).items
    staying = {pod.name for pod in pods if not pod.terminating}
    assert staying == {"p", *(f"low-{n}" for n in range(NODES) if n != SOUND)}
    await ranked.advance(5)
    assert await ranked.node_of("p") == f"n{SOUND}"


async def test_an_error_on_every_node_is_the_error_of_preemption(ranked):
    await ranked.create(
        a_node("n1", cpu="2"), incomplete("n1"),
        a_pod("low", cpu="2"), *wanting(ALL, cpu="2", priority_class_name="high"),
    )  # fmt: skip
    assert "is currently being updated" in await ranked.why("p")
    assert await ranked.node_of("low") == "n1"


async def test_an_error_on_one_node_does_not_cancel_preemption_for_devices(ranked):
    def user(name, node):
        claims = [{"name": "dev", "resourceClaimName": name}]
        return (
            a_claim(name), a_pod(name, cpu="2", claims=claims, node_selector={"at": node})
        )  # fmt: skip

    # Nodes that fail are cordoned: the search on them is not the error of the attempt.
    for number in range(NODES):
        node = f"n{number}"
        usable = number == SOUND
        await ranked.create(
            a_node(node, cpu="2", labels={"at": node}, unschedulable=not usable),
            sound(node) if usable else without_attribute(node), settle=False,
        )  # fmt: skip
    await ranked.create(*user("low", f"n{SOUND}"))
    assert await ranked.node_of("low") == f"n{SOUND}"
    await ranked.advance(1)
    await ranked.create(*wanting(ONE, cpu="1", priority_class_name="high"))
    pods = {pod.name: pod for pod in (await ranked.client.list(PODS)).items}
    assert "low" not in pods or pods["low"].terminating
    await ranked.advance(15)
    assert await ranked.node_of("p") == f"n{SOUND}"
