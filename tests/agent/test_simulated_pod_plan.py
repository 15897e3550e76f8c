from __future__ import annotations

import pytest

from holdfast.api.timestamps import rfc3339
from holdfast.node.agent.addresses import AddressPool
from holdfast.node.agent.claims import unready_reason
from holdfast.node.agent.simulated_pod import NO_STEP, RUN_FOR, STOP_AFTER, needs_step, plan_pod
from holdfast.testing import a_claim, a_pod, typed

NOW = 1_700_000_000.0


def step(pod, problem="", now=NOW):
    return plan_pod(pod, pod_ip="10.0.0.1", host_ip="172.16.0.1", problem=problem, now=now)


def a_bound(status=None, metadata=None, **pod):
    return typed(
        a_pod("p", node="n", status={"phase": "Pending", **(status or {})}, **pod),
        generation=2, **(metadata or {}),
    )  # fmt: skip


def a_leaving(grace=30, asked=NOW, **more):
    metadata = {
        "deletion_timestamp": rfc3339(asked + grace),
        "deletion_grace_period_seconds": grace, **more.pop("metadata", {}),
    }  # fmt: skip
    return a_bound({"phase": "Running"}, metadata, **more)


def test_a_bound_pod_starts_at_once():
    status = step(a_bound()).status["status"]
    assert (status["phase"], status["podIP"], status["hostIP"]) == (
        "Running", "10.0.0.1", "172.16.0.1",
    )  # fmt: skip
    assert status["startTime"] == rfc3339(NOW)
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "PodReadyToStartContainers": "True", "Initialized": "True", "Ready": "True",
        "ContainersReady": "True",
    }  # fmt: skip
    (container,) = status["containerStatuses"]
    assert (container["name"], container["ready"], container["restartCount"]) == ("main", True, 0)
    assert container["state"] == {"running": {"startedAt": rfc3339(NOW)}}
    assert status["observedGeneration"] == 2
    assert "qosClass" not in status, "the server sets it"


def test_a_pod_on_the_host_network_has_the_hosts_address():
    assert step(a_bound(host_network=True)).status["status"]["podIP"] == "172.16.0.1"


def test_init_containers_have_ended_and_sidecars_run():
    containers = [{"name": "once"}, {"name": "side", "restartPolicy": "Always"}]
    statuses = step(a_bound(init_containers=containers)).status["status"]["initContainerStatuses"]
    assert [next(iter(s["state"])) for s in statuses] == ["terminated", "running"]
    assert all(s["ready"] for s in statuses)


def test_a_running_pod_needs_no_step():
    running = a_bound({"phase": "Running", "startTime": rfc3339(NOW)})
    assert step(running) == NO_STEP
    assert not needs_step(running)
    assert needs_step(a_bound())


def test_a_pod_with_run_for_succeeds_after_that_time():
    pod = a_bound(annotations={RUN_FOR: "5s"})
    assert step(pod).requeue_after == 5
    running = a_bound({"phase": "Running", "startTime": rfc3339(NOW)}, annotations={RUN_FOR: "5s"})
    assert step(running, now=NOW + 2).requeue_after == 3
    status = step(running, now=NOW + 5).status["status"]
    assert status["phase"] == "Succeeded"
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    ready = next(c for c in status["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")


def test_an_invalid_run_for_is_ignored():
    running = a_bound({"phase": "Running", "startTime": rfc3339(NOW)}, annotations={RUN_FOR: "x"})
    assert step(running, now=NOW + 1e6) == NO_STEP


def test_a_deleted_pod_stops_at_once():
    assert step(a_leaving()).remove
    assert step(a_leaving()).status is None


@pytest.mark.parametrize(("stop_after", "wait"), [("10s", 10), ("5m", 30)])
def test_a_slow_pod_stops_within_its_grace_period(stop_after, wait):
    pod = a_leaving(30, annotations={STOP_AFTER: stop_after})
    assert step(pod).requeue_after == wait
    assert not step(pod).remove
    assert step(pod, now=NOW + wait).remove


def test_a_shortened_grace_period_is_honoured():
    pod = a_leaving(5, annotations={STOP_AFTER: "20s"})
    assert step(pod).requeue_after == 5


def test_a_pod_with_a_finalizer_is_reported_as_finished_and_not_deleted_twice():
    kept = {"finalizers": ["x.io/y"]}
    first = step(a_leaving(30, metadata=kept))
    assert first.status["status"]["phase"] == "Succeeded"
    assert first.remove
    done = typed(
        a_pod("p", node="n", status={"phase": "Succeeded"}),
        deletion_timestamp=rfc3339(NOW), deletion_grace_period_seconds=0, **kept,
    )  # fmt: skip
    assert step(done) == NO_STEP


def test_a_pod_whose_claims_are_not_ready_waits_and_reports_why():
    held = step(a_bound(), problem="ResourceClaim default/c is not allocated")
    assert held.problem
    status = held.status["status"]
    assert status["phase"] == "Pending"
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "ContainerCreating"
    said = {c["type"]: c for c in status["conditions"]}
    assert said["PodReadyToStartContainers"]["message"].endswith("is not allocated")
    assert said["Ready"]["message"] == "containers with unready status: [main]"

    known = a_bound({"conditions": status["conditions"]})
    assert step(known, problem="ResourceClaim default/c is not allocated").status is None
    other = step(known, problem="something else")
    assert other.status is not None


def a_user(**status):
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    return typed(a_pod("p", node="n", claims=claims, status=status or None))


def test_a_claim_must_exist_be_allocated_and_reserved_for_the_pod():
    pod = a_user()
    allocation = {"devices": {"results": []}}
    mine = [{"resource": "pods", "name": "p", "uid": pod.uid}]
    cases = {
        "not found": None,
        "is not allocated": a_claim("c"),
        "is not allowed to use": a_claim("c", status={"allocation": allocation}),
        "": a_claim("c", status={"allocation": allocation, "reservedFor": mine}),
    }
    for words, raw in cases.items():
        known = {"c": typed(raw)} if raw else {}
        problem = unready_reason(pod, lambda needed, of=known: of.get(needed.name))
        assert (words in problem) if words else problem == ""


def test_a_claim_that_does_not_exist_yet_and_one_that_is_not_needed():
    claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    unmade = typed(a_pod("p", node="n", claims=claims))
    assert "was not created yet" in unready_reason(unmade, {}.get)
    status = {"resourceClaimStatuses": [{"name": "gpu"}]}
    assert unready_reason(typed(a_pod("p", node="n", claims=claims, status=status)), {}.get) == ""


def test_the_special_claim_of_extended_resources_is_required():
    special = {"resourceClaimName": "c", "requestMappings": []}
    pod = typed(a_pod("p", node="n", status={"extendedResourceClaimStatus": special}))
    assert "not found" in unready_reason(pod, {}.get)


@pytest.mark.parametrize("odd", ["fd00::1", "nonsense", "10.0.0", "٣.1.1.1"])
def test_an_address_of_another_network_uses_no_address_of_the_pool(odd):
    pool = AddressPool("10.0.0.0/29")
    assert pool.allocate("odd", odd) == odd
    pool.release("odd")
    assert pool.allocate("a") == "10.0.0.1"


def test_addresses_are_unique_and_reused():
    pool = AddressPool("10.0.0.0/29")
    assert pool.allocate("old", "10.0.0.2") == "10.0.0.2"
    assert [pool.allocate(o) for o in "abc"] == ["10.0.0.1", "10.0.0.3", "10.0.0.4"]
    assert pool.allocate("a") == "10.0.0.1"
    pool.release("b")
    pool.release("unknown")
    assert pool.allocate("d") == "10.0.0.3"
    assert [pool.allocate(o) for o in "ef"] == ["10.0.0.5", "10.0.0.6"]
    with pytest.raises(AssertionError, match="are allocated"):
        pool.allocate("g")
