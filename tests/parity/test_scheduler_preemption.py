"""Upstream's tables of preemption."""

import numpy as np

from holdfast.api.decode import convert_object
from holdfast.api.workloads import PodDisruptionBudget
from holdfast.scheduling.engine.plugin_results import run_pre_filter
from holdfast.scheduling.engine.plugin_use import PluginUse
from holdfast.scheduling.framework.plugin import NO_CHANGE, Code, NodeFilter, Plugin
from holdfast.scheduling.framework.rejection import PASSED, Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.default_preemption import DefaultPreemption
from holdfast.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from holdfast.scheduling.plugins.node_resources_fit import NodeResourcesFit
from holdfast.scheduling.plugins.pod_topology_spread import PodTopologySpread
from parity.harness import parity
from parity.scheduling import node, pod, world_of

CODES = {code.upstream_name: code for code in Code}


class Fake(Plugin, NodeFilter):
    """One of upstream's fake filters: ``answer`` returns a code and a reason for a row."""

    def __init__(self, name, answer):
        self.name = name
        self._answer = answer

    def filter(self, rows, change=NO_CHANGE):
        return np.array([self._answer(int(row), change)[0] for row in rows], np.int8)

    def reasons(self, row, change=NO_CHANGE):
        return (self._answer(row, change)[1],)


def fakes(world, incoming, plugin_code):
    def fails_hooks(row, change):
        broken = world.nodes.nodes[row].metadata.labels.get("error") == "true"
        if not (broken and change):
            return (0, "")
        words = f"failed to remove pod: {incoming.name}"
        return (4, f'running RemovePod on PreFilter plugin "test-plugin": {words}')

    def matches(row, _change):
        return (0, "") if world.nodes.names[row] == incoming.name else (1, "no match")

    return {
        "FakeFilter": lambda _row, _change: (plugin_code, "injecting failure"),
        "TrueFilter": lambda _row, _change: (0, ""),
        "FalseFilter": lambda _row, _change: (1, "always fail"),
        "MatchFilter": matches,
        "test-plugin": fails_hooks,
    }


def rejection(record, world, raw_pod, codes):
    """Return a rejection of the pod by the record's filters, with the ``codes`` of the nodes."""
    pod_info = world.pod_info(pod(raw_pod))
    view = View(world, pod_info, 0.0)
    listed = record.input.get("plugins") or {}
    names = dict.fromkeys([*(listed.get("filter") or ()), *(listed.get("preFilter") or ())])
    answers = fakes(world, pod_info, CODES[record.input.get("fakeFilterRC", "Success")])
    real = {
        "NodeResourcesFit": NodeResourcesFit, "PodTopologySpread": PodTopologySpread,
        "InterPodAffinity": InterPodAffinity,
    }  # fmt: skip
    filters = []
    for name in names:
        if name in answers:
            fake = Fake(name, answers[name])
            filters.append((fake, fake))
        else:
            plugin = real[name]({})
            prepared = run_pre_filter(PluginUse(plugin), pod_info, view, ())
            if prepared.filters:
                filters.append((plugin, prepared.plan))
    found = np.zeros(world.nodes.size, np.int8)
    for name, row in world.nodes.row_of.items():
        found[row] = codes(name)
    return view, Rejection(
        pod=pod_info, view=view, nodes=world.nodes.node_count, codes=found,
        plugin_of=np.full(world.nodes.size, PASSED, np.int8), filters=tuple(filters),
    )  # fmt: skip


def preempt(record, world, raw_pod, codes=lambda _: Code.UNSCHEDULABLE):
    for raw in record.input.get("pdbs") or ():
        world.upsert(convert_object(raw, PodDisruptionBudget))
    view, refusal = rejection(record, world, raw_pod, codes)
    return DefaultPreemption({}).post_filter(refusal, view)


def world(record, pods):
    return world_of([node(raw) for raw in record.input["nodes"]], pods)


def found_by_us(effect):
    return {c.node: ({v.name for v in c.victims}, c.violations) for c in effect.candidates}


@parity("defaultpreemption.jsonl", "TestDryRunPreemption")
def test_dry_run(record):
    for raw, expected in zip(record.input["testPods"], record.expected["expected"], strict=True):
        effect = preempt(record, world(record, record.input["initPods"]), raw)
        got = found_by_us(effect)
        want = {
            c["name"]: (
                {p["metadata"]["name"] for p in c["victims"]["pods"]},
                c["victims"]["numPDBViolations"],
            )
            for c in expected or ()
        }
        if "subset" in record.compare:
            assert want.items() <= got.items()
        else:
            assert got == want


@parity("defaultpreemption.jsonl", "TestSelectBestCandidate")
def test_best_candidate(record):
    effect = preempt(record, world(record, record.input["pods"]), record.input["pod"])
    assert effect.nominated_node in record.expected["expected"]
    assert effect.nominated_node in effect.tied_nodes
    assert set(effect.tied_nodes) <= set(record.expected["expected"])
    want = {
        c["node"]: (
            {p["metadata"]["name"] for p in c["victims"]["pods"]},
            c["victims"]["numPDBViolations"],
        )
        for c in record.observed["candidates"]
    }
    assert found_by_us(effect) == want


@parity("defaultpreemption.jsonl", "TestPreempt")
def test_preempt(record):
    effect = preempt(record, world(record, record.input["pods"]), record.input["pod"])
    want = record.expected["want"]
    if want is None:
        assert effect.nominated_node is None
        assert not effect.victims
    else:
        assert effect.nominated_node == want["nominatedNodeName"]
        assert {v.name for v in effect.victims} == set(record.expected["expectedPods"])


@parity("defaultpreemption.jsonl", "TestPostFilter")
def test_post_filter(record):
    statuses = record.input["filteredNodesStatuses"]
    absent = statuses["absentNodesStatus"]["code"]

    def code(name):
        return CODES[statuses["nodeToStatus"].get(name, {"code": absent})["code"]]

    effect = preempt(record, world(record, record.input["pods"]), record.input["pod"], code)
    want, result = record.expected["wantStatus"], record.expected["wantResult"]
    assert effect.code.upstream_name == want["code"]
    assert effect.message == ", ".join(want.get("reasons", ()))
    assert effect.nominated_node == (result and result["nominatedNodeName"])


@parity("defaultpreemption.jsonl", "TestPodEligibleToPreemptOthers")
def test_eligible(record):
    here = world_of(
        [node({"metadata": {"name": raw}} if isinstance(raw, str) else raw)
         for raw in record.input["nodes"]],
        record.input["pods"],
    )  # fmt: skip
    status = CODES[record.input["nominatedNodeStatus"]["code"]]
    effect = preempt(record, here, record.input["pod"], lambda _: status)
    assert ("not eligible" not in effect.message) == record.expected["expected"]
