"""Upstream's tables of InterPodAffinity and ImageLocality."""

from collections import Counter

from holdfast.api.decode import convert_object
from holdfast.api.workloads import Namespace
from holdfast.scheduling.framework.plugin import NO_CHANGE, PodChange, Skip
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.image_locality import ImageLocality, normalized
from holdfast.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from parity.harness import parity
from parity.scheduling import asked, by_name, event_of, node, pod, world_of


def the_world(record):
    raw_nodes = record.input["nodes"] if "nodes" in record.input else [record.input["node"]]
    pods = record.input.get("pods") or record.input.get("existingPods")
    world = world_of([node(raw) for raw in raw_nodes], pods)
    for raw in record.input.get("namespaces") or ():
        world.upsert(convert_object(raw, Namespace))
    return world


def same_refusal(got, wanted):
    """Cut the message about an invalid selector after the invalid value."""
    assert got["code"] == wanted["code"]
    if "Invalid value" not in str(wanted):
        assert got == wanted
        return
    for ours, theirs in zip(got["reasons"], wanted["reasons"], strict=True):
        assert ours.split("Invalid value")[0] == theirs.split("Invalid value")[0]


@parity(
    "interpodaffinity.jsonl", "TestRequiredAffinityMultipleNodes", "TestRequiredAffinitySingleNode"
)
def test_required(record):
    world = the_world(record)
    found = asked(InterPodAffinity({}), record.input["pod"], world)
    wanted = record.expected["wantPreFilterStatus"]
    if wanted["code"] == "Skip" and found.prefilter["code"] == "Success":
        # Terms of other pods match the pod, but no node has their topology key.
        assert all(found.filter(name) == {"code": "Success"} for name in world.nodes.row_of)
        return
    same_refusal(found.prefilter, wanted)
    if found.prefilter["code"] == "Success":
        wanted = record.expected.get("wantFilterStatuses")
        if wanted is None:
            wanted = [record.expected["wantFilterStatus"]]
        assert [found.filter(name) for name in world.nodes.row_of] == wanted


def counts(found, change=NO_CHANGE):
    """Return the counts for affinity and for anti-affinity terms by (key, value)."""
    plan, nodes = found.prepared.plan, found.world.nodes
    keys = Counter(term.topology_key for term in plan.pod.affinity_terms.required_affinity)
    groups = []
    for counted in (plan.affinity, plan.anti_affinity):
        pairs: Counter = Counter()
        for one in counted:
            key = next(k for k, column in nodes.labels._columns.items()
                       if column is one.domains.label)  # fmt: skip
            times = keys[key] if one in plan.affinity else 1
            for row in nodes.rows.tolist():
                value = one.domains.label.at[row]
                if value >= 0:
                    seen = one.in_domain_of(nodes, row, change)
                    pairs[key, nodes.value(key, value), id(one)] = times * seen
        merged: Counter = Counter()
        for (key, value, _), number in pairs.items():
            merged[key, value] += number
        groups.append({pair: n for pair, n in merged.items() if n})
    return groups


def pairs_of(raw):
    return {(e["key"]["key"], e["key"]["value"]): e["value"] for e in raw or () if e["value"]}


@parity("interpodaffinity.jsonl", "TestGetTPMapMatchingIncomingAffinityAntiAffinity")
def test_counts(record):
    found = asked(InterPodAffinity({}), record.input["pod"], the_world(record))
    wanted = [
        pairs_of(record.expected[k]) for k in ("wantAffinityPodsMap", "wantAntiAffinityPodsMap")
    ]
    assert ([{}, {}] if found.prepared.skip else counts(found)) == wanted


@parity("interpodaffinity.jsonl", "TestPreFilterStateAddRemovePod")
def test_a_pod_is_added_and_removed(record):
    world = the_world(record)
    found = asked(InterPodAffinity({}), record.input["pendingPod"], world)
    before = counts(found)
    more = world.pod_info(pod(record.input["addedPod"], uid="added"))
    row = world.nodes.row_of[more.pod.spec.node_name]
    wanted = [pairs_of(record.expected[k]) for k in ("expectedAffinity", "expectedAntiAffinity")]
    assert counts(found, PodChange(added={row: (more,)})) == wanted
    world.nodes.add_pod(more, more.pod.spec.node_name)
    assert counts(found) == wanted
    assert counts(found, PodChange(removed={row: (more,)})) == before
    world.nodes.remove_pod(more.uid)
    assert counts(found) == before


@parity(
    "interpodaffinity.jsonl",
    "TestPreferredAffinity",
    "TestPreferredAffinityWithHardPodAffinitySymmetricWeight",
)
def test_preferred(record):
    found = asked(InterPodAffinity(record.input["args"]), record.input["pod"], the_world(record))
    wanted = record.expected["wantStatus"]
    if wanted["code"] == "Error":
        # Holdfast rejects the pod before Score, with the message of Filter.
        assert wanted["error"] in found.prefilter["reasons"][0]
    elif wanted["code"] == "Skip":
        rows = found.world.nodes.rows
        assert found.prescore_skips or isinstance(found.prepared.plan.pre_score(rows), Skip)
    else:
        assert found.scores(normalized=True) == by_name(record.expected["expectedList"])


@parity("imagelocality.jsonl", "TestImageLocalityPriority")
def test_images(record):
    found = asked(ImageLocality({}), record.input["pod"], the_world(record))
    assert found.scores(normalized=False) == by_name(record.expected["expectedList"])


@parity("imagelocality.jsonl", "TestNormalizedImageName")
def test_image_names(record):
    assert normalized(record.input["input"]) == record.expected["output"]


@parity(
    "queueing_hints.jsonl",
    "plugins/interpodaffinity/plugin_test.go:Test_isSchedulableAfterNodeChange",
    "plugins/interpodaffinity/plugin_test.go:Test_isSchedulableAfterPodChange",
)
def test_hints(record):
    world = world_of([])
    for raw in record.input.get("namespaces") or ():
        world.upsert(convert_object(raw, Namespace))
    pod_info = world.pod_info(pod(record.input["pod"]))
    got = InterPodAffinity({}).queueing_hint(event_of(record), pod_info, View(world, pod_info, 0.0))
    assert got == (record.expected["expectedHint"] == "Queue")
