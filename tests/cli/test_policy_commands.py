"""``holdfast policy``: what the commands count, decide and print."""

import re

import msgspec
import pytest

from holdfast.api.deletion_cost import DELETION_COST
from holdfast.api.scheme import DEPLOYMENTS, NODES, PODS
from holdfast.cli.connection import list_all
from holdfast.cli.explanation_text import format_explanation
from holdfast.cli.policy import listing, status
from holdfast.cli.policy.next_pod import pod_named, pod_of_workload, usual_next_pod
from holdfast.cli.policy.reading import compile_all, compile_one, require_usage, split_name
from holdfast.cli.policy.why import explain
from holdfast.cli.scheduler_configuration import load_configuration
from holdfast.cli.snapshot import snapshot_from_objects
from holdfast.cli.workloads import read_pod_maker
from holdfast.runtime.errors import BadRequest, Refused
from holdfast.testing import a_deployment, a_unit, typed
from holdfast.testing.harness import Harness
from policies.objects import classes, common_nodes, node, od, place, pod, policy, spot

CONFIGURATION = load_configuration(None)


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        await harness.create(*common_nodes())
        yield harness


def cells(line):
    """The columns of a line of a table."""
    return re.split(r"\s{3,}", line)


async def listed(cluster):
    return listing.as_text(compile_all(await list_all(cluster.client))).splitlines()


async def found(cluster, name="p"):
    return compile_one(await list_all(cluster.client), "web", name)


async def status_of(cluster, name="p", **options):
    return status.as_text(await found(cluster, name), **options).splitlines()


async def why(cluster, name="p", pod="", target=""):
    objects = await list_all(cluster.client)
    governing = require_usage(compile_one(objects, "web", name)).policy
    now = cluster.clock.now()
    if pod:
        chosen = pod_named(governing, objects, pod)
    elif target:
        maker = await read_pod_maker(cluster.client, target, "web")
        chosen = pod_of_workload(governing, maker, target, now)
    else:
        chosen = usual_next_pod(governing, objects, now)
    return explain(governing, chosen, objects, CONFIGURATION, now)


async def lines(cluster, **which):
    return (await why(cluster, **which))["lines"]


async def test_the_list_shows_units_caps_and_headroom(cluster):
    await cluster.create(policy())
    await place(cluster, 3)
    head, row = await listed(cluster)
    assert cells(head) == list(listing.HEAD)
    assert cells(row) == ["web", "p", "app=web", "prefer", "od 2/2, spot 1/3", "2"]


async def test_the_list_shows_pods_of_no_unit_and_units_without_a_cap(cluster):
    await cluster.create(policy(units=[od(max_count=0), spot(max_count=None)]))
    await cluster.create(pod("w", node="c1"))
    row = (await listed(cluster))[1]
    assert cells(row)[-2:] == ["od 0/0, spot 0, no unit 1", "unlimited"]


async def test_problems_are_listed_below_the_table(cluster):
    await cluster.create(*[pod(f"w{i}", node="a1") for i in range(3)])
    await cluster.create(
        policy(units=[od(), a_unit("fast", 9, nodes={"tier": "od"}), a_unit("x", nodes={"x": "y"})])
    )
    await cluster.create(policy("q", pods={"team": "x"}), pod("both", labels={"team": "x"}))
    assert (await listed(cluster))[3:] == [
        "web/p: policy q selects both too: a pod that two policies select is not scheduled",
        "web/p: unit od is over its cap (3/2): no pod is deleted for that, and none is added until "
        "it is below",
        "web/p: unit x has no node (x=y)",
        "web/p: more than one unit has a1, a2: a pod there counts in each of them",
        "web/p: pending: both; `holdfast policy why web/p` explains it",
        "web/q: policy p selects both too: a pod that two policies select is not scheduled",
        "web/q: pending: both; `holdfast policy why web/q` explains it",
    ]


async def test_an_invalid_policy_is_listed_with_its_field(cluster):
    bad = policy("bad", pods={}, units=[od()])
    bad["spec"]["units"][0]["nodeSelector"] = {"matchExpressions": [{"key": "t", "operator": "Im"}]}
    compiled = compile_all([typed(bad), typed(policy("good"))])
    assert [one.usage is None for one in compiled] == [True, False]
    assert "web/bad: it has no effect, because it is invalid: spec.units[0].nodeSelector" in (
        listing.as_text(compiled)
    )
    data = listing.as_data(compiled[0])
    assert (data["units"], data["headroom"]) == ([], None)
    with pytest.raises(Refused, match=r"web/bad has no effect.*spec\.units\[0\]\.nodeSelector"):
        require_usage(compiled[0])


async def test_what_a_server_that_checks_would_refuse_is_listed(cluster):
    old = typed(policy("old", units=[od(), od()]))
    words = "web/old: it is used, but a server that checks it refuses it: spec.units[1].name: "
    assert words in listing.as_text(compile_all([old]))


async def test_a_missing_policy_is_reported_with_those_that_exist(cluster):
    with pytest.raises(Refused, match=r'no resource policy "p".*there are none'):
        await found(cluster)
    await cluster.create(policy("one"), policy("two", pods={"app": "other"}))
    with pytest.raises(Refused, match='"p" in namespace "web": there are web/one, web/two; -n'):
        await found(cluster)
    assert split_name("web/p", "default") == ("web", "p")
    assert split_name("p", "default") == ("default", "p")


async def test_status_shows_each_unit_with_its_pods(cluster):
    await cluster.create(policy(units=[spot(), od(max_resources={"cpu": "3", "memory": "1Gi"})]))
    await place(cluster, 6)
    head, titles, first, second, outside, *_ = await status_of(cluster, with_pods=True)
    assert head == "web/p: selects app=web, strategy prefer, headroom 0, 0 pending"
    assert cells(titles) == list(status.HEAD)
    assert cells(first) == ["od", "5", "2", "2", "2", "0", "cpu 2/3, memory 0/1Gi"]
    assert cells(second) == ["spot", "4", "2", "3", "3", "0", "-"]
    assert cells(outside) == ["no unit", "-", "1", "1", "-", "-", "-"]
    rows = {
        row["pod"]: (row["unit"], row["node"])
        for row in status.pods_data(require_usage(await found(cluster)))
    }
    assert rows["w5"] == (None, "c1")
    assert {rows[f"w{i}"][0] for i in range(2)} == {"od"}


async def test_status_shows_deletion_costs_and_which_are_manual(cluster):
    await cluster.create(policy(), pod("mine", annotations={DELETION_COST: "777"}))
    await place(cluster, 2)
    await cluster.advance(5)
    text = await status_of(cluster, with_pods=True)
    rows = {row["pod"]: row for row in status.pods_data(require_usage(await found(cluster)))}
    assert {name: row["deletionCost"] for name, row in rows.items()} == {
        "mine": "777",
        "w0": "200",
        "w1": "100",
    }
    assert [name for name, row in rows.items() if row["manualCost"]] == ["mine"]
    assert any(line.endswith("777 (manual)") for line in text)


async def test_status_shows_the_conditions_in_one_line(cluster):
    await cluster.create(policy())
    await cluster.advance(5)
    wanted = "Ready=True, Conflicting=False, OverCapacity=False, OverlappingUnits=False"
    assert (await status_of(cluster))[-1] == f"conditions: {wanted}"
    obj = typed(policy(metadata={"generation": 2}, status={"conditions": [{"type": "Ready"}]}))
    late, unseen = (status.as_text(compile_all([o])[0]) for o in (obj, typed(policy())))
    assert "conditions: Ready= (written before the last change of the policy)" in late
    assert "no conditions yet: `holdfast scheduler` or `holdfast controllers` writes them" in unseen


async def test_status_shows_the_groups_of_match_label_keys(cluster):
    await cluster.create(policy(match_label_keys=["v"], strategy="required"))
    await place(cluster, 2, labels={"v": "1"})
    await place(cluster, 1, prefix="x", labels={"v": "2"})
    text = await status_of(cluster)
    assert text[0].endswith("caps for each v")
    assert [cells(line) for line in text[2:6]] == [
        ["od", "5", "2", "3"],
        ["  v=1", "2", "2", "0", "-"],
        ["  v=2", "1", "2", "1", "-"],
        ["spot", "4", "2", "0", "3", "3", "-"],
    ]
    assert cells((await listed(cluster))[1])[-2:] == ["od 2/2, spot 0/3", "3"]


async def test_json_has_numbers_and_names(cluster):
    await cluster.create(policy(units=[od(max_resources={"cpu": "3"}), spot()]))
    await place(cluster, 3)
    data = listing.as_data(await found(cluster))
    assert (data["headroom"], data["outside"], data["pending"], data["problems"]) == (2, 0, 0, [])
    first = data["units"][0]
    assert (first["pods"], first["maxCount"], first["nodes"]) == (2, 2, ["a1", "a2"])
    assert (first["resources"], first["maxResources"]) == ({"cpu": 2000}, {"cpu": 3000})
    msgspec.json.encode([data, await why(cluster)])


async def test_why_explains_one_more_pod_unit_by_unit(cluster):
    await cluster.create(policy())
    await place(cluster, 3)
    assert await lines(cluster) == [
        "web/p: one more pod like w2 would be placed on b2 (unit spot)",
        "  unit od, priority 5, 2/2 pods",
        "        2  unit od is full (2/2)  [resourcepolicy]: a1, a2",
        "  unit spot, priority 4, 1/3 pods",
        "        1  chosen: b2",
        "        1  feasible, with a lower score: b1",
        "  no unit, strategy prefer, 0 pods",
        "        1  feasible, not needed: a higher priority has a node: c1",
    ]


async def test_why_names_the_resources_that_a_unit_lacks(cluster):
    await cluster.create(pod("big1", app="x", cpu="8", node="a1"))
    await cluster.create(pod("big2", app="x", cpu="8", node="a2"), policy(), pod("w"))
    text = await lines(cluster)
    assert text[0].endswith("(unit spot)")
    assert text[1:3] == [
        "  unit od, priority 5, 0/2 pods",
        "        2  Insufficient cpu  [NodeResourcesFit]: a1, a2",
    ]


async def test_why_explains_the_pending_pod_that_is_tried_first(cluster):
    await cluster.create(*classes(high=1000), policy(strategy="required"))
    await place(cluster, 6)
    await cluster.create(pod("late", cpu="99", priority_class_name="high"))
    answer = await why(cluster)
    assert (answer["pod"], answer["exists"], answer["schedulable"]) == ("web/late", True, False)
    text = await lines(cluster, pod="w5")
    assert text[0] == "web/p: pod w5 fits on none of 5 nodes"
    assert "  no unit, strategy required, 0 pods" in text
    assert "Preemption is not helpful" in text[-1] or "No preemption victims" in text[-1]


async def test_why_says_which_pods_preemption_would_evict(cluster):
    await cluster.create(*classes(high=1000), policy(strategy="required", units=[od()]))
    await place(cluster, 2)
    high = a_deployment("web", namespace="web", replicas=0, priority_class_name="high")
    await cluster.create(high)
    text = await lines(cluster, target="deployment/web")
    assert re.search(r"preemption would make a[12] feasible by evicting web/w[01]", text[-1])


async def test_why_explains_preemption_before_the_next_unit(cluster):
    rules = policy(preempt_policy="BeforeNextUnit")
    await cluster.create(*classes(high=1000), rules)
    await place(cluster, 2)
    high = a_deployment("web", namespace="web", replicas=0, priority_class_name="high")
    await cluster.create(high)
    text = await lines(cluster, target="deployment/web")
    assert re.match(r"web/p: one more pod of deployment/web would be nominated to a[12]: ", text[0])
    assert "        2  feasible, not needed: a higher priority is preempted: b1, b2" in text
    assert re.search(r"preemption would make a[12] feasible by evicting web/w[01]", text[-1])


async def test_why_says_for_which_unit_a_pod_waits_and_until_when(cluster):
    rules = policy(when_try_next_units="TimeoutOrExceedMax", timeout="60s")
    await cluster.create(rules, *[pod(f"x{i}", app="x", cpu="8", node=f"a{i}") for i in (1, 2)])
    await cluster.create(pod("w"))
    text = await lines(cluster)
    assert text[0] == "web/p: pending pod w fits on none of 5 nodes"
    assert "        2  Insufficient cpu  [NodeResourcesFit]: a1, a2" in text
    assert any("waiting up to 1m0s for unit od of ResourcePolicy web/p" in line for line in text)
    assert re.match(r"  it is tried again at \S+Z, without waiting for a change", text[-1])


async def test_why_explains_a_bound_pod_without_counting_it(cluster):
    await cluster.create(policy())
    await place(cluster, 2)
    first, second, third, *_ = await lines(cluster, pod="w0")
    assert first.startswith("web/w0 is on a")
    assert second.startswith("web/p: pod w0 would be placed on a")
    assert third == "  unit od, priority 5, 1/2 pods"


async def test_why_shows_nominated_pods(cluster):
    rules = policy(strategy="required", units=[od()], match_policy=None)
    await cluster.create(*classes(low=1, high=1000), rules)
    await place(cluster, 2, priority_class_name="low", stops_after=30)
    await cluster.create(pod("high", priority_class_name="high"))
    own, other = (await why(cluster))["units"][0], (await why(cluster, pod="w0"))["units"][0]
    assert (own["nominated"], other["nominated"]) == ([], ["high"])
    assert "  unit od, priority 5, 1/2 pods, nominated: high" in await lines(cluster, pod="w0")


async def test_why_uses_the_template_of_the_newest_replica_set(cluster):
    await cluster.create(policy(match_label_keys=["pod-template-hash"]))
    await cluster.create(a_deployment("web", namespace="web", replicas=2))
    assert "unit od, priority 5, 2/2 pods" in (await lines(cluster, target="deploy/web"))[1]
    change = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}, "paused": False}}
    await cluster.client.patch(DEPLOYMENTS, "web", change, "web")
    await cluster.advance(30)
    text = await lines(cluster, target="deploy/web")
    assert text[0] == "web/p: one more pod of deploy/web would be placed on b1, b2 (unit spot)"
    assert text[1] == "  unit od, priority 5, 2/2 pods"


async def test_why_reports_a_conflict_once(cluster):
    await cluster.create(policy(), policy("q", pods={}), pod("w"))
    text = await lines(cluster)
    assert text[0].endswith("pod is matched by more than one ResourcePolicy: web/p, web/q.")
    assert sum("more than one" in line for line in text) == 1


async def test_why_refuses_pods_that_the_policy_does_not_select(cluster):
    await cluster.create(policy(), pod("other", app="api"), pod("w", node="a1"))
    await cluster.create(a_deployment("api", namespace="web", replicas=0))
    with pytest.raises(
        Refused, match="does not select pod other: podSelector is app=web, the pod has app=api"
    ):
        await why(cluster, pod="other")
    with pytest.raises(Refused, match="does not select a pod of deployment/api"):
        await why(cluster, target="deployment/api")
    with pytest.raises(Refused, match='no pod "none" in namespace "web"'):
        await why(cluster, pod="none")
    with pytest.raises(Refused, match="never selects pods of namespace db"):
        await why(cluster, pod="db/w")
    with pytest.raises(Refused, match='no Deployment "none"'):
        await why(cluster, target="deployment/none")
    done = {"status": {"phase": "Succeeded"}}
    await cluster.client.patch(PODS, "w", done, "web", subresource="status")
    with pytest.raises(Refused, match="pod w has finished"):
        await why(cluster, pod="w")


async def test_why_without_nodes_gates_and_other_schedulers(cluster):
    await cluster.create(policy(), pod("gated", scheduling_gates=[{"name": "g"}]))
    text = await lines(cluster)
    assert text[0].startswith("web/p: pending pod gated fits on no node: waiting for scheduling")
    await cluster.create(pod("theirs", scheduler_name="other"))
    with pytest.raises(BadRequest, match='no profile is named "other"; there are default-'):
        await why(cluster, pod="theirs")
    for name in ("a1", "a2", "b1", "b2", "c1"):
        await cluster.delete(NODES, name)
    await cluster.create(pod("w"))
    text = await lines(cluster, pod="w")
    assert text[0] == "web/p: pod w fits on no node: no nodes available to schedule pods"
    assert text.count("         the unit has no node") == 2


async def test_why_needs_a_pod_or_a_workload(cluster):
    await cluster.create(policy())
    with pytest.raises(Refused, match=r"web/p selects no pod \(podSelector app=web\).*--for"):
        await why(cluster)


async def test_why_leaves_out_what_the_unit_wrote_on_the_pod(cluster):
    await cluster.create(policy(units=[od(pod_labels={"tier": "od"})]))
    await cluster.create(pod("w", labels={"tier": "od"}, node="a1"))
    objects = await list_all(cluster.client)
    chosen = usual_next_pod(require_usage(await found(cluster)).policy, objects, 0.0).pod
    assert chosen.metadata.labels == {"app": "web"}
    assert (chosen.spec.node_name, chosen.status.phase) == ("", "")


async def test_a_node_of_two_units_is_shown_in_both(cluster):
    await cluster.create(node("a3", labels={"disk": "ssd"}))
    fast = a_unit("fast", 9, nodes={"disk": "ssd"}, max_count=1)
    await cluster.create(policy(units=[od(), fast]), pod("w", node="a3"))
    text = await lines(cluster)
    full = "        1  unit fast is full (1/1)  [resourcepolicy]: a3"
    assert text.count(full) == 2


async def test_the_explanation_of_a_pod_names_its_policy_and_the_units(cluster):
    await cluster.create(policy(match_label_keys=["v"]))
    await place(cluster, 3, labels={"v": "1"})
    await place(cluster, 1, prefix="x", labels={"v": "2"})
    objects = await list_all(cluster.client)
    answer = snapshot_from_objects(objects, "web/w2").explain(CONFIGURATION.profiles, 0.0)
    text = format_explanation(answer).splitlines()
    assert text[1] == "  ResourcePolicy web/p: pods in od 2/2, spot 0/3"
    await cluster.create(pod("other", app="x"))
    objects = await list_all(cluster.client)
    answer = snapshot_from_objects(objects, "web/other").explain(CONFIGURATION.profiles, 0.0)
    assert "resourcePolicies" not in answer


def test_the_commands_exist_and_have_help(holdfast):
    output = holdfast("policy", "--help").out
    for command in ("list", "status", "why"):
        assert f"\n  {command} " in output
    wrong = holdfast("policy", "why", "p", "--pod", "a", "--for", "deployment/b")
    assert (wrong.code, "Give --pod or --for, not both." in wrong.err) == (2, True)
