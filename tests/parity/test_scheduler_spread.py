"""Hard topology spread constraints against upstream's tables."""

from holdfast.framework.plugin import NONE, Change
from holdfast.plugins.pod_topology_spread import PodTopologySpread
from parity.harness import parity
from parity.scheduling import asked, node, pod, world_of


@parity("podtopologyspread.jsonl", "TestSingleConstraint", "TestMultipleConstraints")
def test_filter(record):
    world = world_of([node(raw) for raw in record.input["nodes"]], record.input["existingPods"])
    found = asked(PodTopologySpread({}), record.input["pod"], world)
    for name, code in record.expected["wantStatusCode"].items():
        got = found.filter(name)
        if code:
            assert got["code"] == code, name
        assert got == record.observed["status"][name]


def plain(record):
    """Default constraints are wishes, made from Services and ReplicaSets, and are not built."""
    return not record.input.get("objs") and not (record.input["args"] or {}).get(
        "defaultConstraints"
    )


@parity("podtopologyspread.jsonl", "TestPreFilterState", where=plain)
def test_counts(record):
    world = world_of([node(raw) for raw in record.input["nodes"]], record.input["existingPods"])
    found = asked(PodTopologySpread({}), record.input["pod"], world)
    assert found.prefilter["code"] == record.expected["wantPrefilterStatus"]["code"]
    if found.prefilter["code"] == "Success":
        assert counts(found) == record.expected["want"]["tpValueToMatchNum"]
        check_constraints(found, record.expected["want"]["constraints"])


@parity("podtopologyspread.jsonl", "TestPreFilterStateAddPod")
def test_counts_with_a_pod_more(record):
    world = world_of([node(raw) for raw in record.input["nodes"]], record.input["existingPods"])
    found = asked(PodTopologySpread({}), record.input["preemptor"], world)
    there = node(record.input["nodes"][record.input["nodeIdx"]]).name
    more = world.facts(pod(record.input["addedPod"], uid="added"))
    change = Change(added={world.nodes.row_of[there]: (more,)})
    assert counts(found, change) == record.expected["want"]["tpValueToMatchNum"]


@parity("podtopologyspread.jsonl", "TestPreFilterStateRemovePod")
def test_counts_with_a_pod_less(record):
    standing = record.input["existingPods"]
    world = world_of([node(raw) for raw in record.input["nodes"]], standing)
    found = asked(PodTopologySpread({}), record.input["preemptor"], world)
    there = node(record.input["nodes"][record.input["nodeIdx"]]).name
    index = record.input["deletedPodIdx"]
    less = record.input["deletedPod"] if index < 0 else standing[index]
    if "that runs there (p-b2)" in record.compare:
        less = next(raw for raw in standing if raw["metadata"]["name"] == "p-b2")
    gone = world.facts(pod(less, uid="gone"))
    known = index >= 0 and (there == gone.pod.spec.node_name)
    change = Change(removed={world.nodes.row_of[there]: (gone,)}) if known else NONE
    assert counts(found, change) == record.expected["want"]["tpValueToMatchNum"]


def counts(found, change=NONE):
    """Matching pods per domain that has an eligible node, a dict for each constraint."""
    answer = []
    for counted in found.prepared.state.counted:
        numbers = counted.counts(found.world.nodes, change)
        values = counted.label.values
        present = counted.domains.nodes
        answer.append({values[i]: int(n) for i, n in enumerate(numbers) if present[i]})
    return answer


def check_constraints(found, wanted):
    got = [c.constraint for c in found.prepared.state.counted]
    assert [(c.key, c.max_skew, c.min_domains, str(c.selector)) for c in got] == [
        (w["topologyKey"], w["maxSkew"], w["minDomains"], w["selector"]["string"]) for w in wanted
    ]
    assert [(c.honor_affinity, c.honor_taints) for c in got] == [
        (w["nodeAffinityPolicy"] == "Honor", w["nodeTaintsPolicy"] == "Honor") for w in wanted
    ]
