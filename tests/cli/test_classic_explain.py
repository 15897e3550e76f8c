"""The explanation of a pod with classic claims, as JSON."""

import msgspec

from holdfast.cli.objects import parse_documents
from holdfast.cli.snapshot import built_in_profiles, read_snapshot
from holdfast.testing import a_claim, a_node, a_pod
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    a_pod_scheduling,
    an_allocation,
    named,
)


def test_the_explanation_names_the_answer_of_the_driver():
    pod = a_pod("p", claims=[named("a"), named("b")], metadata={"uid": "u"})
    objects = [
        a_node("n1"), a_node("n2"), pod, a_classic_class(),
        a_classic_claim("a", status=an_allocation("n1")), a_classic_claim("b"),
        a_claim("a"),  # a claim of the other generation
        a_pod_scheduling(pod, selected="n1", potential=["n1"], b=["n1"]),
    ]  # fmt: skip
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}).decode()
    found = read_snapshot(parse_documents(text), "p").explain(built_in_profiles(), 0.0)
    assert [node["reasons"] for node in found["nodes"]] == [
        ["resourceclaim cannot be allocated for the node (unsuitable)"],
        ["resourceclaim not available on the node"],
    ]
    details = found["details"]["ClassicDynamicResources"]
    assert details["nodes"] == {
        "n1": {"b": "resourceclaim cannot be allocated for the node (unsuitable)"},
        "n2": {"a": "resourceclaim not available on the node"},
    }
    assert [claim["state"] for claim in details["claims"]] == ["Allocated", "Pending"]
