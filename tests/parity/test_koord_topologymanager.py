"""Koordinator's topology manager: the NUMA nodes that hints and a policy lead to."""

from holdfast.state.numa.cpu_set import mask_of
from holdfast.state.numa.policy_names import BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE
from holdfast.state.numa.topology_hints import (
    Hint,
    NodeUse,
    gather_hints,
    keeps_exclusive,
    merge_hints,
    single_node_hints,
)
from parity.harness import parity

FILE = "koord_topologymanager.jsonl"
POLICIES = {
    "none": "",
    "best-effort": BEST_EFFORT,
    "restricted": RESTRICTED,
    "single-numa-node": SINGLE_NUMA_NODE,
}


def hint(raw):
    nodes = raw.get("numaNodeAffinity")
    return Hint(None if nodes is None else mask_of(nodes), raw["preferred"], raw["score"])


def hints(raw):
    return None if raw is None else [hint(each) for each in raw]


def provided(raw):
    return [
        None if each is None else {name: hints(found) for name, found in each.items()}
        for each in raw or ()
    ]


def merge(record):
    given = record.input
    return merge_hints(
        POLICIES[given["policy"]],
        given.get("numaNodes", ()),
        provided(given["providersHints"]),
        given.get("exclusivePolicy", ""),
    )


@parity(
    FILE, "TestPolicyBestEffortMerge", "TestPolicyRestrictedMerge", "TestPolicySingleNumaNodeMerge"
)
def test_hints_merge(record):
    merged, want = merge(record), record.expected
    assert Hint(merged.mask, merged.preferred, merged.score) == hint(want["hint"])
    assert merged.admitted == record.observed["admit"]
    assert list(merged.reasons) == (want.get("reasons") or [])


@parity(FILE, "TestPolicyNoneMerge")
def test_hints_without_a_policy(record):
    merged, want = merge(record), record.expected
    assert Hint(merged.mask, merged.preferred, merged.score) == hint(want["expectedHint"])
    assert merged.admitted == want["expectedAdmit"]


@parity(
    FILE,
    "TestPolicyBestEffortCanAdmitPodResult",
    "TestPolicyNoneCanAdmitPodResult",
    "TestPolicyRestrictedCanAdmitPodResult",
    "TestPolicySingleNumaNodeCanAdmitPodResult",
)
def test_a_merged_hint_is_admitted(record):
    given = record.input
    offered = [{"cpu": [Hint(None, given["hint"]["preferred"])]}]
    merged = merge_hints(POLICIES[given["policy"]], given["numaNodes"], offered)
    assert merged.admitted == record.expected["expected"]


@parity(FILE, "TestPolicySingleNumaNodeFilterHints")
def test_hints_of_one_numa_node(record):
    got = [single_node_hints(hints(each)) for each in record.input["allResources"]]
    assert got == [hints(each) or [] for each in record.expected["expectedResources"] or ()]


@parity(FILE, "Test_checkExclusivePolicy")
def test_numa_nodes_are_exclusive(record):
    given = record.input
    used = enumerate(given["allNUMANodeStatus"])
    by_status = {"idle": 0, "single": 0, "shared": 0}
    for node, status in used:
        by_status[status] |= 1 << node
    use = NodeUse(by_status["single"], by_status["shared"])
    mask = hint(given["affinity"]).mask
    assert keeps_exclusive(mask, given["exclusivePolicy"], use) == record.expected["want"]


@parity(FILE, "Test_filterProvidersHints")
def test_hints_are_gathered(record):
    got, want = gather_hints(provided(record.input["providersHints"])), record.expected
    lists = [[hint(each) for each in found if not each["unsatisfied"]] for found in want["want"]]
    assert [list(found) for found in got.lists] == [found for found in lists if found]
    assert list(got.reasons) == (want["wantReasons"] or [])
    assert got.summaries() == (want["wantSummary"] or [])
