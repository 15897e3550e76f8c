from __future__ import annotations

import msgspec
import pytest

from holdfast.api.decode import convert_object
from holdfast.api.resource import Resource
from holdfast.api.scheme import DISRUPTION_BUDGETS, NODES
from holdfast.api.timestamps import rfc3339
from holdfast.controllers.disruption import BUDGETS, FullBudget, plan_budget
from holdfast.runtime.errors import TooManyRequests
from holdfast.server.store import ObjectKey
from holdfast.testing import a_deployment, a_node, a_pod, typed

NOW = 1_700_000_000.0
RAW_PODS = Resource("", "v1", "pods", "Pod", dict)


def a_raw_budget(status=None, **spec):
    body = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {
            "name": "b", "namespace": "default", "uid": "u", "resourceVersion": "3", "generation": 1
        },
        "spec": body, "status": status or {},
    }  # fmt: skip


def a_budget(status=None, **spec):
    return convert_object(a_raw_budget(status, **spec), FullBudget)


def some_pods(count, *, ready=True, **meta):
    said = [{"type": "Ready", "status": "True" if ready else "False"}]
    owner = {"kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
    return [
        typed(
            a_pod(f"p{i}{ready}", status={"phase": "Running", "conditions": said}),
            owner_references=[owner], **meta,
        )
        for i in range(count)
    ]  # fmt: skip


def counted(budget, pods, scale=None, now=NOW):
    (patch,) = plan_budget(budget, pods, lambda owner, namespace: scale, now).writes
    status = patch.patch["status"]
    assert patch.patch["metadata"]["resourceVersion"] == "3"
    return tuple(
        status[k]
        for k in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    )


@pytest.mark.parametrize(
    ("spec", "scale", "expected"),
    [
        ({"minAvailable": 2}, None, (3, 2, 3, 1)),
        ({"minAvailable": 3}, None, (3, 3, 3, 0)),
        ({"minAvailable": "50%"}, 5, (5, 3, 3, 0)),
        ({"maxUnavailable": 1}, 3, (3, 2, 3, 1)),
        ({"maxUnavailable": "40%"}, 4, (4, 2, 3, 1)),
        ({"maxUnavailable": 9}, 3, (3, 0, 3, 3)),
        ({"maxUnavailable": 1}, None, (3, 2, 3, 1)),
    ],
)
def test_the_disruptions_that_a_budget_allows(spec, scale, expected):
    assert counted(a_budget(**spec), some_pods(3), scale) == expected


def test_a_condition_without_a_type_is_ignored():
    odd = a_budget({"conditions": [{"status": "True"}]}, minAvailable=2)
    assert counted(odd, some_pods(3)) == (3, 2, 3, 1)


def test_a_budget_without_expected_pods_allows_no_disruption():
    assert counted(a_budget(minAvailable=0), []) == (0, 0, 0, 0)


def test_terminating_and_unready_pods_are_not_healthy():
    pods = [*some_pods(2), *some_pods(1, ready=False)]
    assert counted(a_budget(minAvailable=1), pods) == (3, 1, 2, 1)
    going = some_pods(2, deletion_timestamp=rfc3339(NOW))
    assert counted(a_budget(minAvailable=1), going) == (2, 1, 0, 0)


def test_an_evicted_pod_counts_as_disrupted_for_two_minutes():
    pods = some_pods(2)
    budget = a_budget({"disruptedPods": {pods[0].name: rfc3339(NOW)}}, minAvailable=1)
    assert counted(budget, pods) == (2, 1, 1, 0)
    assert plan_budget(budget, pods, lambda *_: None, NOW).requeue_after == 121
    assert counted(budget, pods, now=NOW + 130) == (2, 1, 2, 1)


def test_an_unchanged_status_of_a_budget_is_not_written():
    pods = some_pods(2)
    budget = a_budget(minAvailable=1)
    (patch,) = plan_budget(budget, pods, lambda *_: None, NOW).writes
    known = a_budget(patch.patch["status"], minAvailable=1)
    assert plan_budget(known, pods, lambda *_: None, NOW + 99).writes == ()


async def test_evictions_reduce_the_allowed_disruptions(cluster):
    raw = a_raw_budget(maxUnavailable=1)
    for key in ("uid", "resourceVersion", "generation"):
        del raw["metadata"][key]
    await cluster.create(a_node("n"), a_deployment("web", replicas=3), raw)
    await cluster.bind_all("n")
    budget = await cluster.get(BUDGETS, "b", "default")
    assert (budget.status.expected_pods, budget.status.disruptions_allowed) == (3, 1)

    first, second, _ = await cluster.pods()
    await evict(cluster, first)
    with pytest.raises(TooManyRequests):
        await evict(cluster, second)
    await cluster.clock.advance(1)
    await cluster.bind_all("n")
    await cluster.clock.advance(1)
    assert (await cluster.get(DISRUPTION_BUDGETS, "b", "default")).status.disruptions_allowed == 1
    await evict(cluster, second)


async def evict(cluster, pod):
    body = {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": "default"},
    }  # fmt: skip
    await cluster.client.create(RAW_PODS, body, "default", name=pod.name, subresource="eviction")


async def test_the_pods_of_a_deleted_node_are_deleted_and_replaced(cluster):
    await cluster.create(a_node("n"), a_deployment("web", replicas=2))
    await cluster.bind_all("n")
    before = {p.uid for p in await cluster.pods()}

    await cluster.client.delete(NODES, "n")
    await cluster.clock.advance(30)
    assert {p.uid for p in await cluster.pods()} == before
    await cluster.clock.advance(20)
    after = await cluster.pods()
    assert len(after) == 2
    assert not before & {p.uid for p in after}


async def test_a_budget_with_an_invalid_selector_does_not_affect_others(cluster):
    """An earlier version may have stored such a budget; here it is written into the store."""
    store, readable = cluster.server.context.store, a_raw_budget(minAvailable=0)
    unreadable = a_raw_budget()
    unreadable["metadata"] |= {"name": "odd", "uid": "odd"}
    unreadable["spec"] = {"selector": {"matchExpressions": [{"key": "a", "operator": "Zip"}]}}

    def build(revision):
        unreadable["metadata"]["resourceVersion"] = str(revision)
        return msgspec.json.encode(unreadable)

    await store.create(ObjectKey("policy", "poddisruptionbudgets", "default", "odd"), build)
    for key in ("uid", "resourceVersion"):
        readable["metadata"].pop(key)
    await cluster.create(readable, a_node("n1"), a_deployment("web", replicas=2))
    await cluster.bind_all("n1")
    await cluster.clock.advance(5)
    status = (await cluster.get(DISRUPTION_BUDGETS, "b", "default")).status
    assert status.disruptions_allowed == 2
