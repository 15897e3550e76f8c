"""HTTP extenders have a say in where pods go: what they are asked, and what their answers mean."""

from contextlib import asynccontextmanager

import pytest

from holdfast.api.scheme import NODES, PODS
from holdfast.framework.extender import ManagedResource
from holdfast.testing import a_node, a_pod, a_priority_class, a_reservation
from holdfast.testing.fake_extender import allow, fail, give, refuse
from holdfast.testing.harness import Harness

NC = "no new claims to deallocate, preemption: "


@asynccontextmanager
async def cluster_asking(tmp_path, extender, *configs, nodes=3, **more):
    async with Harness(tmp_path / "store", extenders=configs, **more) as cluster:
        extender.join(cluster)
        await cluster.create(*(a_node(f"n{i}", cpu="4") for i in range(1, nodes + 1)))
        yield cluster


@pytest.fixture
async def cluster(tmp_path, extender):
    config = extender.config(filter_verb="filter")
    async with cluster_asking(tmp_path, extender, config) as made:
        yield made


async def test_a_pod_goes_where_the_extender_allows(cluster, extender):
    extender.answers["filter"] = allow("n2")
    await cluster.create(a_pod("p"))
    assert await cluster.node_of("p") == "n2"


async def test_it_is_told_the_whole_pod_and_the_names_of_the_feasible_nodes(cluster, extender):
    extender.answers["filter"] = allow("n2")
    await cluster.client.patch(NODES, "n3", {"spec": {"unschedulable": True}})
    pod = a_pod("p")
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "b"}]
    await cluster.create(pod)
    ((_, question),) = extender.asked
    assert (question["NodeNames"], question["Nodes"]) == (["n1", "n2"], None)
    assert question["Pod"]["metadata"]["uid"] == (await cluster.pod("p")).uid
    assert question["Pod"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}]


async def test_one_that_knows_no_nodes_is_told_all_about_them(tmp_path, extender):
    config = extender.config(filter_verb="filter", node_cache_capable=False)
    extender.answers["filter"] = lambda body: {"Nodes": {"items": body["Nodes"]["items"][1:]}}
    async with cluster_asking(tmp_path, extender, config, nodes=1) as cluster:
        second = a_node("n2")
        second["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.2"}]
        await cluster.create(second, a_pod("p"))
        assert await cluster.node_of("p") == "n2"
        ((_, question),) = extender.asked
        described = question["Nodes"]["items"][1]
        assert described["status"]["addresses"][0]["address"] == "10.0.0.2"
        assert question["NodeNames"] is None


async def test_answers_are_read_whatever_the_case_of_their_keys(cluster, extender):
    extender.answers["filter"] = lambda _body: {"nodenames": ["n3"], "failednodes": None}
    await cluster.create(a_pod("p"))
    assert await cluster.node_of("p") == "n3"


async def test_refusals_are_told_in_the_extenders_words(cluster, extender):
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


async def test_any_news_gives_a_pod_that_extenders_refused_another_try(cluster, extender):
    extender.answers["filter"] = refuse("no", "n1", "n2", "n3")
    await cluster.create(a_pod("p"))
    asked = len(extender.asked)
    await cluster.client.patch(NODES, "n1", {"metadata": {"annotations": {"a": "b"}}})
    await cluster.advance(2)
    assert len(extender.asked) == asked + 1


async def test_a_node_that_is_not_mentioned_is_out_without_a_word(cluster, extender):
    extender.answers["filter"] = allow()
    await cluster.create(a_pod("p"))
    assert await cluster.why("p") == (
        "0/3 nodes are available: " + NC
        + "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )  # fmt: skip


async def test_what_cannot_be_resolved_counts_where_both_are_said(cluster, extender):
    extender.answers["filter"] = lambda _body: {
        "NodeNames": [], "FailedNodes": dict.fromkeys(("n1", "n2", "n3"), "perhaps"),
        "FailedAndUnresolvableNodes": {"n1": "never"},
    }  # fmt: skip
    await cluster.create(a_pod("p"))
    assert (await cluster.why("p")).startswith(
        "0/3 nodes are available: 1 never, 2 perhaps. " + NC
        + "0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
    )  # fmt: skip


async def test_each_is_asked_about_what_the_one_before_left_and_the_ignorable_last(
    tmp_path, extender
):
    configs = (
        extender.config(filter_verb="unsure", ignorable=True),
        extender.config(filter_verb="first"),
        extender.config(filter_verb="second"),
    )
    extender.answers = {"first": allow("n1", "n2"), "second": allow("n2"), "unsure": allow("n2")}
    async with cluster_asking(tmp_path, extender, *configs) as cluster:
        await cluster.create(a_pod("p"))
        assert [(verb, body["NodeNames"]) for verb, body in extender.asked] == [
            ("first", ["n1", "n2", "n3"]), ("second", ["n1", "n2"]), ("unsure", ["n2"]),
        ]  # fmt: skip


async def test_nobody_is_asked_about_a_pod_that_fits_nowhere(cluster, extender):
    await cluster.create(a_pod("p", cpu="9"))
    assert (await cluster.why("p")).startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert extender.asked == []


@pytest.mark.parametrize(("weight", "winner"), [(29, "clean"), (31, "tainted")])
async def test_a_point_of_an_extender_is_worth_ten_of_a_plugin(tmp_path, extender, weight, winner):
    config = extender.config(prioritize_verb="prioritize", weight=weight)
    extender.answers["prioritize"] = give(tainted=1)
    async with cluster_asking(tmp_path, extender, config, nodes=0) as cluster:
        advice = {"key": "k", "effect": "PreferNoSchedule"}
        await cluster.create(a_node("clean"), a_node("tainted", taints=[advice]))
        # TaintToleration gives the clean one 300 points more, and nobody else tells them apart.
        await cluster.create(a_pod("p"))
        assert await cluster.node_of("p") == winner


async def test_points_of_several_are_added_and_failures_give_none(tmp_path, extender):
    verbs = ("one", "two", "broken")
    configs = [extender.config(prioritize_verb=verb, weight=1) for verb in verbs]
    extender.answers = {"one": give(n1=3, n2=2), "two": give(n2=2), "broken": fail(500)}
    async with cluster_asking(tmp_path, extender, *configs) as cluster:
        await cluster.create(a_pod("p"))
        assert await cluster.node_of("p") == "n2"
        assert len(extender.asked) == 3


async def test_nobody_is_asked_for_points_when_one_node_is_left(tmp_path, extender):
    config = extender.config(filter_verb="filter", prioritize_verb="prioritize", weight=1)
    extender.answers["filter"] = allow("n1")
    async with cluster_asking(tmp_path, extender, config) as cluster:
        await cluster.create(a_pod("p"))
        assert await cluster.node_of("p") == "n1"
        assert extender.questions("prioritize") == []


async def create_nominated(cluster, name, node):
    """Create a pod that somebody else has nominated to a node."""
    await cluster.create(a_pod(name, scheduling_gates=[{"name": "wait"}]))
    nominated = {"status": {"nominatedNodeName": node}}
    await cluster.client.patch(PODS, name, nominated, "default", subresource="status")
    await cluster.client.patch(PODS, name, {"spec": {"schedulingGates": None}}, "default")
    await cluster.settle()


async def test_a_nominated_node_is_asked_about_alone(tmp_path, extender):
    config = extender.config(filter_verb="filter", prioritize_verb="prioritize", weight=1)
    extender.answers = {"filter": allow("n1", "n2", "n3"), "prioritize": give(n1=10)}
    async with cluster_asking(tmp_path, extender, config) as cluster:
        await create_nominated(cluster, "p", "n3")
        assert await cluster.node_of("p") == "n3"
        assert [body["NodeNames"] for _, body in extender.asked] == [["n3"]]


async def test_a_nominated_node_that_is_refused_is_one_of_many_again(cluster, extender):
    extender.answers["filter"] = allow("n1")
    await create_nominated(cluster, "p", "n3")
    assert await cluster.node_of("p") == "n1"
    assert [body["NodeNames"] for _, body in extender.asked] == [["n3"], ["n1", "n2", "n3"]]


async def test_only_pods_that_ask_for_what_it_manages_are_sent_to_it(tmp_path, extender):
    gpus = (ManagedResource(name="example.com/gpu"),)
    config = extender.config(filter_verb="filter", managed_resources=gpus)
    extender.answers["filter"] = allow("n1")
    async with cluster_asking(tmp_path, extender, config) as cluster:
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
    "nonsense": (lambda _body: [], "the answer of {url}/filter cannot be read: "),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_failing_extender_fails_the_attempt(cluster, extender, case):
    extender.answers["filter"], words = FAILURES[case]
    await cluster.create(a_pod("p"))
    (condition,) = (await cluster.pod("p")).status.conditions
    assert condition.reason == "SchedulerError"
    assert condition.message.startswith(words.format(url=extender.url))
    extender.answers["filter"] = allow("n1")
    await cluster.advance(3)
    assert await cluster.node_of("p") == "n1"


async def test_an_extender_that_is_not_there_fails_the_attempt(tmp_path, extender):
    config = extender.config(url_prefix="http://127.0.0.1:9/nobody/", filter_verb="filter")
    async with cluster_asking(tmp_path, extender, config) as cluster:
        await cluster.create(a_pod("p"))
        assert (await cluster.why("p")).startswith('Post "http://127.0.0.1:9/nobody/filter": ')


async def test_one_that_may_fail_is_done_without(tmp_path, extender):
    config = extender.config(filter_verb="filter", ignorable=True)
    extender.answers["filter"] = fail(500)
    async with cluster_asking(tmp_path, extender, config) as cluster:
        await cluster.create(a_pod("p"))
        assert (await cluster.node_of("p")).startswith("n")


async def test_a_reservation_is_asked_about_like_a_pod(cluster, extender):
    extender.answers["filter"] = allow("n2")
    await cluster.create(a_reservation("r"))
    assert (await cluster.reservation("r")).status.node_name == "n2"


async def test_preemption_keeps_off_what_an_extender_refused(cluster, extender):
    extender.answers["filter"] = refuse("no", "n1", "n2")
    await cluster.create(a_priority_class("high", 1000))
    await cluster.create(*(a_pod(f"s{i}", cpu="2", node=f"n{i}") for i in (1, 2)))
    await cluster.create(a_pod("s3", cpu="4", node="n3"))
    await cluster.create(a_pod("p", cpu="1", priority_class_name="high"), settle=False)
    await cluster.advance(60)
    # Evicting anybody on the others would not change the extender's mind.
    assert await cluster.node_of("p") == "n3"
    assert [await cluster.node_of(f"s{i}") for i in (1, 2)] == ["n1", "n2"]


async def test_preemption_says_so_if_only_an_extender_is_in_the_way(cluster, extender):
    extender.answers["filter"] = refuse("no", "n1", "n2", "n3")
    await cluster.create(a_priority_class("high", 1000), a_pod("s1", cpu="2", node="n1"))
    await cluster.create(a_pod("p", cpu="1", priority_class_name="high"))
    assert await cluster.why("p") == (
        '0/3 nodes are available: 3 no. preemption: expected at least one victim pod on node "n1"'
    )
