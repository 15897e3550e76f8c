"""HTTP extenders that filter and prioritize: their requests, and the effect of responses."""

from contextlib import asynccontextmanager

import pytest

from holdfast.api.scheme import NODES, PODS
from holdfast.scheduling.framework.extender import ManagedResource
from holdfast.testing import a_node, a_pod, a_priority_class, a_reservation
from holdfast.testing.fake_extender import allow, fail, give, refuse
from holdfast.testing.harness import Harness

NC = "no new claims to deallocate, preemption: "


@asynccontextmanager
async def cluster_with(tmp_path, extender, *configs, nodes=3, **more):
    async with Harness(tmp_path / "store", extenders=configs, **more) as cluster:
        extender.join(cluster)
        await cluster.create(*(a_node(f"n{i}", cpu="4") for i in range(1, nodes + 1)))
        yield cluster


@pytest.fixture
async def cluster(tmp_path, extender):
    config = extender.config(filter_verb="filter")
    async with cluster_with(tmp_path, extender, config) as made:
        yield made


async def test_a_pod_is_scheduled_to_a_node_that_the_extender_allows(cluster, extender):
    extender.answers["filter"] = allow("n2")
    await cluster.create(a_pod("p"))
    assert await cluster.node_of("p") == "n2"


async def test_the_extender_gets_the_whole_pod_and_the_feasible_node_names(cluster, extender):
    extender.answers["filter"] = allow("n2")
    await cluster.client.patch(NODES, "n3", {"spec": {"unschedulable": True}})
    pod = a_pod("p")
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "b"}]
    await cluster.create(pod)
    ((_, question),) = extender.asked
    assert (question["NodeNames"], question["Nodes"]) == (["n1", "n2"], None)
    assert question["Pod"]["metadata"]["uid"] == (await cluster.pod("p")).uid
    assert question["Pod"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}]


async def test_an_extender_without_node_cache_gets_whole_nodes(tmp_path, extender):
    config = extender.config(filter_verb="filter", node_cache_capable=False)
    extender.answers["filter"] = lambda body: {"Nodes": {"items": body["Nodes"]["items"][1:]}}
    async with cluster_with(tmp_path, extender, config, nodes=1) as cluster:
        second = a_node("n2")
        second["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.2"}]
        await cluster.create(second, a_pod("p"))
        assert await cluster.node_of("p") == "n2"
        ((_, question),) = extender.asked
        described = question["Nodes"]["items"][1]
        assert described["status"]["addresses"][0]["address"] == "10.0.0.2"
        assert question["NodeNames"] is None


async def test_keys_of_a_response_are_case_insensitive(cluster, extender):
    extender.answers["filter"] = lambda _body: {"nodenames": ["n3"], "failednodes": None}
    await cluster.create(a_pod("p"))
    assert await cluster.node_of("p") == "n3"


async def test_reasons_of_the_extender_are_in_the_message(cluster, extender):
    extender.answers["filter"] = refuse("no GPU left", "n1", "n2", unresolvable=True)
    await cluster.create(a_pod("s", cpu="4"))
    await cluster.create(a_pod("p"))
    assert await cluster.node_of("s") == "n3"
    assert await cluster.why("p") == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 no GPU left. " + NC
        + "0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )  # fmt: skip
    for plugin in ("Extender", "NodeResourcesFit"):
        blamed = {"plugin": plugin, "profile": "default-scheduler"}
        assert cluster.metric("unschedulable_pods", **blamed) == 1


async def test_any_event_requeues_a_pod_that_extenders_rejected(cluster, extender):
    extender.answers["filter"] = refuse("no", "n1", "n2", "n3")
    await cluster.create(a_pod("p"))
    asked = len(extender.asked)
    await cluster.client.patch(NODES, "n1", {"metadata": {"annotations": {"a": "b"}}})
    await cluster.advance(2)
    assert len(extender.asked) == asked + 1


async def test_a_node_missing_in_the_response_is_rejected_without_a_reason(cluster, extender):
    extender.answers["filter"] = allow()
    await cluster.create(a_pod("p"))
    assert await cluster.why("p") == (
        "0/3 nodes are available: " + NC
        + "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )  # fmt: skip


async def test_unresolvable_wins_over_unschedulable_for_one_node(cluster, extender):
    extender.answers["filter"] = lambda _body: {
        "NodeNames": [], "FailedNodes": dict.fromkeys(("n1", "n2", "n3"), "perhaps"),
        "FailedAndUnresolvableNodes": {"n1": "never"},
    }  # fmt: skip
    await cluster.create(a_pod("p"))
    assert (await cluster.why("p")).startswith(
        "0/3 nodes are available: 1 never, 2 perhaps. " + NC
        + "0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
    )  # fmt: skip


async def test_each_extender_gets_the_nodes_left_by_the_one_before(tmp_path, extender):
    configs = (
        extender.config(filter_verb="unsure", ignorable=True),
        extender.config(filter_verb="first"),
        extender.config(filter_verb="second"),
    )
    extender.answers = {"first": allow("n1", "n2"), "second": allow("n2"), "unsure": allow("n2")}
    async with cluster_with(tmp_path, extender, *configs) as cluster:
        await cluster.create(a_pod("p"))
        assert [(verb, body["NodeNames"]) for verb, body in extender.asked] == [
            ("first", ["n1", "n2", "n3"]), ("second", ["n1", "n2"]), ("unsure", ["n2"]),
        ]  # fmt: skip


async def test_extenders_are_not_called_for_a_pod_without_feasible_nodes(cluster, extender):
    await cluster.create(a_pod("p", cpu="9"))
    assert (await cluster.why("p")).startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert extender.asked == []


@pytest.mark.parametrize(("weight", "winner"), [(29, "clean"), (31, "tainted")])
async def test_scores_of_extenders_count_ten_times(tmp_path, extender, weight, winner):
    config = extender.config(prioritize_verb="prioritize", weight=weight)
    extender.answers["prioritize"] = give(tainted=1)
    async with cluster_with(tmp_path, extender, config, nodes=0) as cluster:
        advice = {"key": "k", "effect": "PreferNoSchedule"}
        await cluster.create(a_node("clean"), a_node("tainted", taints=[advice]))
        # TaintToleration scores the untainted node 300 higher; all other scores are equal.
        await cluster.create(a_pod("p"))
        assert await cluster.node_of("p") == winner


async def test_scores_of_several_extenders_are_added_and_failures_ignored(tmp_path, extender):
    verbs = ("one", "two", "broken")
    configs = [extender.config(prioritize_verb=verb, weight=1) for verb in verbs]
    extender.answers = {"one": give(n1=3, n2=2), "two": give(n2=2), "broken": fail(500)}
    async with cluster_with(tmp_path, extender, *configs) as cluster:
        await cluster.create(a_pod("p"))
        assert await cluster.node_of("p") == "n2"
        assert len(extender.asked) == 3


async def test_extenders_do_not_prioritize_a_single_node(tmp_path, extender):
    config = extender.config(filter_verb="filter", prioritize_verb="prioritize", weight=1)
    extender.answers["filter"] = allow("n1")
    async with cluster_with(tmp_path, extender, config) as cluster:
        await cluster.create(a_pod("p"))
        assert await cluster.node_of("p") == "n1"
        assert extender.questions("prioritize") == []


async def create_nominated(cluster, name, node):
    """Create a pod that is nominated to a node."""
    await cluster.create(a_pod(name, scheduling_gates=[{"name": "wait"}]))
    nominated = {"status": {"nominatedNodeName": node}}
    await cluster.client.patch(PODS, name, nominated, "default", subresource="status")
    await cluster.client.patch(PODS, name, {"spec": {"schedulingGates": None}}, "default")
    await cluster.settle()


async def test_a_nominated_node_is_filtered_alone_first(tmp_path, extender):
    config = extender.config(filter_verb="filter", prioritize_verb="prioritize", weight=1)
    extender.answers = {"filter": allow("n1", "n2", "n3"), "prioritize": give(n1=10)}
    async with cluster_with(tmp_path, extender, config) as cluster:
        await create_nominated(cluster, "p", "n3")
        assert await cluster.node_of("p") == "n3"
        assert [body["NodeNames"] for _, body in extender.asked] == [["n3"]]


async def test_all_nodes_are_filtered_if_the_nominated_one_is_rejected(cluster, extender):
    extender.answers["filter"] = allow("n1")
    await create_nominated(cluster, "p", "n3")
    assert await cluster.node_of("p") == "n1"
    assert [body["NodeNames"] for _, body in extender.asked] == [["n3"], ["n1", "n2", "n3"]]


async def test_only_pods_that_request_managed_resources_are_sent(tmp_path, extender):
    gpus = (ManagedResource(name="example.com/gpu"),)
    config = extender.config(filter_verb="filter", managed_resources=gpus)
    extender.answers["filter"] = allow("n1")
    async with cluster_with(tmp_path, extender, config) as cluster:
        amounts = {"example.com/gpu": "4"}
        await cluster.client.patch(
            NODES, "n1", {"status": {"allocatable": amounts}}, subresource="status"
        )
        await cluster.create(a_pod("plain"), a_pod("p", requests=amounts, limits=amounts))
        assert await cluster.node_of("p") == "n1"
        assert [body["Pod"]["metadata"]["name"] for _, body in extender.asked] == ["p"]


FAILURES = {
    "status": (fail(500), "failed filter with extender at URL {url}/filter, code 500"),
    "error": (lambda _body: {"Error": "out of order"}, "out of order"),
    "stranger": (
        lambda _body: {"NodeNames": ["elsewhere"]},
        'extender "{url}" claims a filtered node "elsewhere" which is not found in the input '
        "node list",
    ),
    "nonsense": (lambda _body: [], "the response of {url}/filter cannot be read: "),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_failing_extender_fails_the_attempt(cluster, extender, case):
    extender.answers["filter"], message = FAILURES[case]
    await cluster.create(a_pod("p"))
    (condition,) = (await cluster.pod("p")).status.conditions
    assert condition.reason == "SchedulerError"
    assert condition.message.startswith(message.format(url=extender.url))
    extender.answers["filter"] = allow("n1")
    await cluster.advance(3)
    assert await cluster.node_of("p") == "n1"


async def test_an_unreachable_extender_fails_the_attempt(tmp_path, extender):
    config = extender.config(url_prefix="http://127.0.0.1:9/unreachable/", filter_verb="filter")
    async with cluster_with(tmp_path, extender, config) as cluster:
        await cluster.create(a_pod("p"))
        assert (await cluster.why("p")).startswith('Post "http://127.0.0.1:9/unreachable/filter": ')


async def test_an_ignorable_extender_that_fails_is_skipped(tmp_path, extender):
    config = extender.config(filter_verb="filter", ignorable=True)
    extender.answers["filter"] = fail(500)
    async with cluster_with(tmp_path, extender, config) as cluster:
        await cluster.create(a_pod("p"))
        assert (await cluster.node_of("p")).startswith("n")


async def test_a_reservation_is_sent_like_a_pod(cluster, extender):
    extender.answers["filter"] = allow("n2")
    await cluster.create(a_reservation("r"))
    assert (await cluster.reservation("r")).status.node_name == "n2"


async def test_preemption_skips_nodes_that_an_extender_rejected(cluster, extender):
    extender.answers["filter"] = refuse("no", "n1", "n2")
    await cluster.create(a_priority_class("high", 1000))
    await cluster.create(*(a_pod(f"s{i}", cpu="2", node=f"n{i}") for i in (1, 2)))
    await cluster.create(a_pod("s3", cpu="4", node="n3"))
    await cluster.create(a_pod("p", cpu="1", priority_class_name="high"), settle=False)
    await cluster.advance(60)
    # Evicting pods on the other nodes would not change the extender's result.
    assert await cluster.node_of("p") == "n3"
    assert [await cluster.node_of(f"s{i}") for i in (1, 2)] == ["n1", "n2"]


async def test_preemption_reports_that_only_an_extender_rejects_the_pod(cluster, extender):
    extender.answers["filter"] = refuse("no", "n1", "n2", "n3")
    await cluster.create(a_priority_class("high", 1000), a_pod("s1", cpu="2", node="n1"))
    await cluster.create(a_pod("p", cpu="1", priority_class_name="high"))
    assert await cluster.why("p") == (
        '0/3 nodes are available: 3 no. preemption: expected at least one victim pod on node "n1"'
    )
