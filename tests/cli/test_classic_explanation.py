"""What ``holdfast why`` and ``holdfast explain`` say about classic claims; their devices."""

import msgspec
import pytest

from cli.explain_requests import ask
from holdfast.api.classic_dra.node_inventory import NodeInventory
from holdfast.cli.classic_dra.explanation import read_failures
from holdfast.cli.classic_dra.inventories import as_table, classic_devices
from holdfast.cli.devices.choosing import Filter
from holdfast.cli.explanation_text import format_explanation
from holdfast.state.classic_dra.ledger import ClassicLedger
from holdfast.state.columns.node_table import NodeTable
from holdfast.testing import a_claim, a_node, a_pod, typed
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    a_pod_scheduling,
    an_allocation,
)

POD = a_pod("p", claims=[{"name": "c", "claim": {"resourceClaimName": "c"}}], metadata={"uid": "1"})
OTHER = a_pod("other")
WAITING = a_classic_claim("c")
DRIVER = "gpu.example.com"
RUNS = f"if this lasts, see whether the controller of {DRIVER} runs, and its log"


def explained(*objects, **more):
    """Return the lines about claims."""
    nodes = [a_node(name) for name in ("n1", "n2")]
    answer = ask(*nodes, POD, *objects)
    answer.get("classicClaims", {}).update(more)
    lines = [line.strip() for line in format_explanation(answer).splitlines()]
    return [line for line in lines[1:] if "[Classic" not in line and "best:" not in line]


@pytest.mark.parametrize(
    ("objects", "lines"),
    [
        ([], ["claim c: Missing", "the claim does not exist: create it"]),
        (
            [WAITING],
            [
                "claim c of class gpu: Pending",
                "resource class gpu does not exist",
                "to do: an administrator has to create ResourceClass gpu",
            ],
        ),
        (
            [a_classic_class(), WAITING],
            ["claim c of class gpu: Pending", "waits for scheduler: a question to the driver"],
        ),
        (
            [a_classic_class(), WAITING, a_pod_scheduling(POD, selected="n1", potential=["n1"])],
            [
                "claim c of class gpu: Pending",
                f"waits for {DRIVER}: the allocation on n1",
                f"to do: {RUNS}",
            ],
        ),
        (
            [a_classic_class(), WAITING, a_pod_scheduling(POD, potential=["n1", "n2"])],
            [
                "claim c of class gpu: Pending",
                f"waits for {DRIVER}: an answer on which of 2 nodes it cannot allocate",
                f"to do: {RUNS}",
            ],
        ),
        (
            [
                a_classic_class(),
                WAITING,
                a_pod_scheduling(POD, selected="n1", potential=["n1", "n2"], c=["n1", "n2"]),
            ],
            [
                "claim c of class gpu: Pending",
                f"2  {DRIVER} cannot allocate it: n1, n2",
                f"waits for {DRIVER}: a node on which it can allocate",
                "to do: ask for less, or wait until a claim is freed: `holdfast devices` shows "
                "what is left",
            ],
        ),
        (
            [a_classic_class(), a_classic_claim("c", immediate=True)],
            [
                "immediate claim c of class gpu: Pending",
                f"waits for {DRIVER}: the allocation, for which no pod is needed",
                f"to do: {RUNS}",
            ],
        ),
        (
            [
                a_classic_class(),
                a_classic_claim("c", status=an_allocation("n1", consumers=[OTHER])),
            ],
            [
                f"claim c of class gpu: Reserved, by {DRIVER} for use on n1, used by other",
                "to do: wait until the pod that uses the claim ends, or give each pod its own "
                "claim",
            ],
        ),
        (
            [a_classic_class(), a_classic_claim("c", status=an_allocation("n1"))],
            [f"claim c of class gpu: Allocated, by {DRIVER} for use on n1"],
        ),
    ],
)
def test_the_explanation_says_what_a_claim_waits_for_and_what_to_do(objects, lines):
    assert explained(*objects) == lines


def test_a_structured_claim_of_the_same_name_is_another_one():
    pending = ["claim c of class gpu: Pending", "waits for scheduler: a question to the driver"]
    for claims in ([a_claim("c"), WAITING], [WAITING, a_claim("c")]):
        assert explained(a_classic_class(), *claims) == pending


class Events:
    """A client that has events."""

    def __init__(self, *events):
        self.events = [typed(event) for event in events]

    async def list(self, resource, namespace, *, fields):
        uid = fields.removeprefix("involvedObject.uid=")
        found = [event for event in self.events if event.involved_object.uid == uid]
        return type("Listing", (), {"items": found})


def an_event(about, message, time, reason="Failed"):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": message, "namespace": "default"},
        "involvedObject": {"kind": about.kind, "name": about.name, "uid": about.uid},
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2030-01-01T00:00:0{time}Z",
        "source": {"component": DRIVER},
    }


async def test_the_last_failure_of_each_object_is_shown_once():
    claim, negotiation = typed(WAITING), typed(a_pod_scheduling(POD))
    before = typed(WAITING, uid="before")
    client = Events(
        an_event(claim, "new", 2),
        an_event(claim, "old", 1),
        an_event(before, "of an earlier claim", 3),
        an_event(claim, "ok", 4, reason="Allocated"),
        an_event(negotiation, "new", 2),
    )
    ledger = ClassicLedger(NodeTable())
    for obj in (claim, negotiation):
        ledger.upsert(obj)
    failures = await read_failures(client, typed(POD), ledger)
    assert [one["object"] for one in failures] == ["ResourceClaim c", "PodScheduling p"]
    shown = explained(a_classic_class(), WAITING, failures=failures)
    assert shown[-1] == f"{DRIVER} reported at 2030-01-01T00:00:02Z on ResourceClaim c: new"
    ledger.upsert(typed(a_classic_claim("c", status=an_allocation()), resourceVersion="2"))
    assert await read_failures(client, typed(POD), ledger) == []


def test_the_devices_of_classic_drivers_are_listed_with_what_is_left():
    device = {"capacity": {"memory": {"value": "8Gi"}}}
    taint = {"key": "broken", "effect": "NoSchedule"}
    inventory = msgspec.convert(
        {
            "apiVersion": "dra.holdfast.dev/v1alpha1",
            "kind": "NodeInventory",
            "metadata": {"name": "n1", "namespace": "d"},
            "spec": {
                "driverName": DRIVER,
                "nodeName": "n1",
                "ready": True,
                "devices": [
                    {"name": "free"},
                    {"name": "whole", **device},
                    {"name": "part", **device},
                    {"name": "full", **device},
                    {"name": "broken", "taints": [taint]},
                ],
            },
            "status": {
                "allocated": {
                    "1": {"namespace": "a", "name": "x", "devices": ["whole", "gone"]},
                    "2": {
                        "namespace": "b",
                        "name": "y",
                        "shares": [
                            {"device": "part", "capacity": {"memory": "2Gi", "gone": "1"}},
                            {"device": "full", "capacity": {"memory": "8Gi"}},
                        ],
                    },
                }
            },
        },
        NodeInventory,
    )
    found = classic_devices([inventory], Filter())
    table = [line.split() for line in as_table(found, wide=False).splitlines()[1:]]
    assert [row[1:5] for row in table] == [
        ["free", "n1", "free", "-"],
        ["whole", "n1", "used", "a/x"],
        ["part", "n1", "shared", "b/y"],
        ["full", "n1", "full", "b/y"],
        ["broken", "n1", "tainted", "-"],
        ["gone", "n1", "used", "a/x"],
    ]
    assert table[2][5:] == ["memory", "6Gi", "of", "8Gi"]

    def names(**which):
        return [one["device"] for one in classic_devices([inventory], Filter(**which))]

    assert names(free=True) == ["free", "part"]
    assert names(namespace="a") == ["whole", "gone"]
    assert names(node="n2") == names(driver="x") == names(device_class="gpu") == []
