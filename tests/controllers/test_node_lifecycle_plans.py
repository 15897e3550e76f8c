"""Heartbeats, zones, evictions and garbage as values; the story is in tests/stories."""

from __future__ import annotations

import pytest

from holdfast.api.node import Taint
from holdfast.api.timestamps import rfc3339
from holdfast.controllers.node_lifecycle.heartbeats import NodeHeartbeats, plan_unknown_status
from holdfast.controllers.node_lifecycle.zones import (
    Disruption,
    EvictionLimiter,
    NodeZones,
    zone_key,
)
from holdfast.controllers.pod_garbage_collector import failed_status, plan_finished
from holdfast.controllers.taint_eviction import plan_node_eviction
from holdfast.runtime.settings import NodeLifecycleSettings
from holdfast.testing import a_node, a_pod, typed

NOW = 1_700_000_000.0
SETTINGS = NodeLifecycleSettings()


def node(name="n", ready: str | None = "True", zone="a", beat=0.0, **labels):
    raw = a_node(name, labels={"topology.kubernetes.io/zone": zone, **labels})
    said = {"type": "Ready", "status": ready, "lastHeartbeatTime": rfc3339(NOW + beat)}
    raw["status"]["conditions"] = [said] if ready else []
    return typed(raw)


def lease(renewed):
    spec = {"renewTime": rfc3339(NOW + renewed)} if renewed is not None else {}
    return typed(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "n", "namespace": "kube-node-lease"},
            "spec": spec,
        }
    )


def test_renewed_leases_and_new_heartbeats_are_signs_of_life():
    beats = NodeHeartbeats(SETTINGS)
    assert beats.node_changed(None, node(), 0.0, 1000.0)
    assert beats.seconds_left(node(), 49.0) == 1.0
    assert not beats.node_changed(node(), node(), 49.0, 0.0)
    assert not beats.node_changed(node(), node(ready="Unknown"), 49.0, 0.0)
    assert beats.node_changed(node(), node(beat=1), 10.0, 0.0)
    assert beats.seconds_left(node(), 10.0) == 50.0
    assert beats.lease_changed(None, lease(0), 20.0)
    assert not beats.lease_changed(lease(5), lease(5), 30.0)
    assert not beats.lease_changed(lease(5), lease(1), 30.0)
    assert not beats.lease_changed(lease(5), lease(None), 30.0)
    assert beats.lease_changed(lease(5), lease(6), 30.0)
    assert beats.seconds_left(node(), 80.0) == 0.0


def test_a_node_that_never_reported_has_60_s_from_its_creation():
    beats = NodeHeartbeats(SETTINGS)
    beats.node_changed(None, node(ready=None), 100.0, 45.0)
    assert beats.seconds_left(node(ready=None), 100.0) == 15.0


def test_a_check_that_comes_too_late_waits_for_newer_leases():
    beats = NodeHeartbeats(SETTINGS)
    beats.node_changed(None, node(), 0.0, 0.0)
    assert beats.seconds_left(node(), 1000.0) == 5.0
    assert beats.seconds_left(node(), 1005.0) == 0.0
    assert beats.seconds_left(node(ready="Unknown"), 2000.0) < 0


def test_unknown_conditions_are_written_once():
    patch = plan_unknown_status(node(), NOW).patch["status"]["conditions"]
    assert [(c["type"], c["reason"]) for c in patch] == [
        ("Ready", "NodeStatusUnknown"),
        ("MemoryPressure", "NodeStatusNeverUpdated"),
        ("DiskPressure", "NodeStatusNeverUpdated"),
        ("PIDPressure", "NodeStatusNeverUpdated"),
    ]
    assert plan_unknown_status(node(ready="Unknown"), NOW) is None


def test_the_rate_of_a_zone_follows_its_state():
    zones = NodeZones(SETTINGS)
    members = [node(f"n{i}") for i in range(60)]
    for each in members:
        assert zones.update(None, each)
    spare = node("other", zone="b")
    zones.update(None, spare)
    zone = zones.zones[zone_key(members[0])]

    def fail(count):
        for at in range(count):
            failed = node(f"n{at}", ready="Unknown")
            zones.update(members[at], failed)
            members[at] = failed
        return zones.update_rates(0.0), zone.state.value, _rate(zone.limiter)

    assert fail(32) == (Disruption.NONE, "Normal", 0.1)
    assert fail(33) == (Disruption.NONE, "PartialDisruption", 0.01)
    assert fail(60) == (Disruption.NONE, "FullDisruption", 0.1)
    lost = node("other", ready="False", zone="b")
    zones.update(spare, lost)
    assert zones.update_rates(0.0) is Disruption.ENTERED
    assert zone.limiter.wait(0.0) is None
    assert zones.update_rates(0.0) is Disruption.NONE
    zones.update(lost, spare)
    assert zones.update_rates(0.0) is Disruption.LEFT
    assert zone.limiter.wait(0.0) == 10.0  # the first node waits a whole turn
    for each in members:
        zones.update(each, None)
    assert list(zones.zones) == [zone_key(spare)]


def _rate(limiter):
    limiter.take(0.0)
    wait = limiter.wait(0.0)
    return 1 / wait


def test_a_small_zone_that_is_partly_disrupted_evicts_nothing():
    zones = NodeZones(SETTINGS)
    for at in range(5):
        zones.update(None, node(f"n{at}", ready="False" if at < 3 else "True"))
    excluded = {"node.kubernetes.io/exclude-disruption": ""}
    zones.update(None, node("excluded", **excluded))
    zones.update_rates(0.0)
    (zone,) = zones.zones.values()
    assert (zone.state, zone.limiter.wait(0.0)) == ("PartialDisruption", None)


def test_the_limiter_serves_one_node_at_a_time():
    limiter = EvictionLimiter(0.1)
    assert limiter.wait(100.0) == 0.0
    limiter.take(100.0)
    assert limiter.wait(104.0) == 6.0
    limiter.set_rate(0.1, 104.0)
    assert limiter.wait(104.0) == 6.0
    limiter.set_rate(0.01, 104.0)
    assert limiter.wait(104.0) == 100.0


def until(key="k", seconds: int | None = None, **more):
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **limit, **more}


@pytest.mark.parametrize(
    ("taints", "tolerations", "leaves"),
    [
        ([], [], None),
        (["k"], [], 100),
        (["k"], [until()], None),
        (["k"], [until(seconds=30)], 130),
        (["k"], [until(seconds=0)], 100),
        (["k"], [until(seconds=-7)], 100),
        (["k"], [until(seconds=2**63 - 1)], 2.0**63),
        (["k"], [until(seconds=30), until()], 130),  # the first counts
        (["k"], [until(), until(seconds=30)], None),
        (["k", "j"], [until(), until("j", 60)], 160),
        (["k", "j"], [until(seconds=90), until("j", 60)], 160),
        (["k", "j"], [until("j", 60)], 100),
        (["k"], [until("", 5)], 105),
        (["k"], [until(effect="NoSchedule")], 100),
    ],
)
def test_the_shortest_toleration_of_the_taints_of_a_node_counts(taints, tolerations, leaves):
    pod = typed(a_pod("p", node="n", tolerations=tolerations))
    timed = [(Taint(key=key, effect="NoExecute"), 100.0) for key in taints]
    assert plan_node_eviction(pod, timed) == leaves


def test_a_pod_that_was_assigned_later_has_all_its_time():
    said = {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(NOW)}
    pod = a_pod("p", node="n", tolerations=[until(seconds=30)], status={"conditions": [said]})
    taint = (Taint(key="k", effect="NoExecute"), 100.0)
    assert plan_node_eviction(typed(pod), [taint]) == NOW + 30
    leaving = typed(pod, deletion_timestamp=rfc3339(NOW))
    assert plan_node_eviction(leaving, [taint]) is None


def test_evicted_and_older_pods_are_collected_first():
    def ended(name, at, **status):
        raw = a_pod(name, status={"phase": "Failed", **status})
        return typed(raw, creation_timestamp=rfc3339(NOW + at))

    pods = [ended("young", 9), ended("old", 1), ended("twin", 1), ended("ev", 8, reason="Evicted")]
    assert [p.name for p in plan_finished(pods, 1)] == ["ev", "old", "twin"]
    assert plan_finished(pods, 4) == []


def test_a_pod_that_has_finished_is_not_marked_as_failed():
    assert failed_status(typed(a_pod("p", status={"phase": "Succeeded"}))) is None
    said = failed_status(typed(a_pod("p", node="n")), {"type": "DisruptionTarget"})["status"]
    assert (said["phase"], said["conditions"]) == ("Failed", [{"type": "DisruptionTarget"}])
