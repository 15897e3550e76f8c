"""Upstream's tables of PodTopologySpread."""

import numpy as np
import pytest

from holdfast.api import scheme
from holdfast.api.decode import convert_object
from holdfast.api.resource import Resource
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.engine.scoring import score_rows
from holdfast.scheduling.framework.plugin import NO_CHANGE, PodChange
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.pod_topology_spread import PodTopologySpread
from parity.harness import parity
from parity.scheduling import asked, by_name, event_of, node, pod, world_of


@parity("podtopologyspread.jsonl", "TestSingleConstraint", "TestMultipleConstraints")
def test_filter(record):
    world = world_of([node(raw) for raw in record.input["nodes"]], record.input["existingPods"])
    found = asked(PodTopologySpread({}), record.input["pod"], world)
    for name, code in record.expected["wantStatusCode"].items():
        got = found.filter(name)
        if code:
            assert got["code"] == code, name
        assert got == record.observed["status"][name]


def with_objects(record, world):
    kinds = {r.kind: r.type for r in vars(scheme).values() if isinstance(r, Resource)}
    for raw in record.input.get("objs") or ():
        world.upsert(convert_object(raw, kinds[raw["kind"]]))
    return world


@parity("podtopologyspread.jsonl", "TestPreFilterState")
def test_counts(record):
    nodes = [node(raw) for raw in record.input["nodes"] or ()]
    world = world_of(nodes, record.input["existingPods"])
    plugin = PodTopologySpread(record.input["args"])
    found = asked(plugin, record.input["pod"], with_objects(record, world))
    assert found.prefilter["code"] == record.expected["wantPrefilterStatus"]["code"]
    if found.prefilter["code"] == "Success":
        assert counts(found) == record.expected["want"]["tpValueToMatchNum"]
        check_constraints(found.prepared.plan.hard, record.expected["want"]["constraints"])


@parity("podtopologyspread.jsonl", "TestPreFilterStateAddPod")
def test_counts_with_an_added_pod(record):
    world = world_of([node(raw) for raw in record.input["nodes"]], record.input["existingPods"])
    found = asked(PodTopologySpread({}), record.input["preemptor"], world)
    there = node(record.input["nodes"][record.input["nodeIdx"]]).name
    more = world.pod_info(pod(record.input["addedPod"], uid="added"))
    change = PodChange(added={world.nodes.row_of[there]: (more,)})
    assert counts(found, change) == record.expected["want"]["tpValueToMatchNum"]


@parity("podtopologyspread.jsonl", "TestPreFilterStateRemovePod")
def test_counts_with_a_removed_pod(record):
    standing = record.input["existingPods"]
    world = world_of([node(raw) for raw in record.input["nodes"]], standing)
    found = asked(PodTopologySpread({}), record.input["preemptor"], world)
    there = node(record.input["nodes"][record.input["nodeIdx"]]).name
    index = record.input["deletedPodIdx"]
    less = record.input["deletedPod"] if index < 0 else standing[index]
    if "that runs there (p-b2)" in record.compare:
        less = next(raw for raw in standing if raw["metadata"]["name"] == "p-b2")
    gone = world.pod_info(pod(less, uid="gone"))
    known = index >= 0 and (there == gone.pod.spec.node_name)
    change = PodChange(removed={world.nodes.row_of[there]: (gone,)}) if known else NO_CHANGE
    assert counts(found, change) == record.expected["want"]["tpValueToMatchNum"]


def counts(found, change=NO_CHANGE):
    """Return the matching pods per domain with an eligible node, a dict for each constraint."""
    answer = []
    for counted in found.prepared.plan.hard:
        numbers = counted.counts(found.world.nodes, change)
        values = counted.label.values
        there = counted.domains.present
        answer.append(
            {values[i]: int(n) for i, n in enumerate(numbers) if there is None or there[i]}
        )
    return answer


def check_constraints(found, wanted):
    got = [one.constraint for one in found]
    assert [(c.key, c.max_skew, c.min_domains, str(c.selector)) for c in got] == [
        (w["topologyKey"], w["maxSkew"], w["minDomains"], w["selector"]["string"]) for w in wanted
    ]
    assert [(c.honor_affinity, c.honor_taints) for c in got] == [
        (w["nodeAffinityPolicy"] == "Honor", w["nodeTaintsPolicy"] == "Honor") for w in wanted
    ]


@parity("podtopologyspread.jsonl", "TestPodTopologySpreadScore")
def test_score(record):
    feasible = [node(raw) for raw in record.input["nodes"]]
    others = [node(raw) for raw in record.input["failedNodes"] or ()]
    world = with_objects(record, world_of([*feasible, *others], record.input["existingPods"]))
    found = asked(PodTopologySpread(record.input["args"]), record.input["pod"], world)
    rows = np.array([world.nodes.row_of[one.name] for one in feasible])
    (score,) = score_rows(Profile("p", (found.plugin,)), [found.prepared], rows)
    got = {world.nodes.names[row]: int(score.normalized[i]) for i, row in enumerate(rows)}
    assert got == by_name(record.expected["want"])


@parity("podtopologyspread.jsonl", "TestPreScoreSkip")
def test_skip(record):
    world = with_objects(record, world_of([node(raw) for raw in record.input["nodes"]]))
    found = asked(PodTopologySpread(record.input["config"]), record.input["pod"], world)
    assert found.prescore_skips == (record.expected["preScoreStatus"]["code"] == "Skip")


@parity("podtopologyspread.jsonl", "TestPreScoreStateEmptyNodes")
def test_weights(record):
    world = with_objects(record, world_of([node(raw) for raw in record.input["nodes"]]))
    found = asked(PodTopologySpread(record.input["config"]), record.input["pod"], world)
    wanted, plan, rows = record.expected["want"], found.prepared.plan, world.nodes.rows
    plan.pre_score(rows)
    assert plan.weights == pytest.approx(wanted["topologyNormalizingWeight"], abs=1e-9)
    ignored_rows = plan.ignored_rows(rows)
    ignored = set() if ignored_rows is None else {world.nodes.names[r] for r in rows[ignored_rows]}
    assert ignored == set(wanted["ignoredNodes"])
    check_constraints(plan.soft, wanted["constraints"])
    for constraint, counts_ in zip(plan.soft, wanted["topologyValueToPodCounts"], strict=True):
        if constraint.domains is not None:
            values = constraint.label.values
            got = {values[i]: int(n) for i, n in enumerate(constraint.domains.counts)}
            assert {v: n for v, n in got.items() if v in counts_} == {
                v: n for v, n in counts_.items() if v
            }


@parity(
    "queueing_hints.jsonl",
    "plugins/podtopologyspread/plugin_test.go:Test_isSchedulableAfterNodeChange",
    "plugins/podtopologyspread/plugin_test.go:Test_isSchedulableAfterPodChange",
)
def test_hints(record):
    world = world_of([])
    pod_info = world.pod_info(pod(record.input["pod"]))
    got = PodTopologySpread({}).queueing_hint(
        event_of(record), pod_info, View(world, pod_info, 0.0)
    )
    wanted = record.expected.get("expectedHint") or record.expected["wantHint"]
    assert got == (wanted == "Queue")
