"""DeviceTaintRules of Kubernetes 1.37, which serves them as v1 and has their gate on."""

import pytest

from holdfast.api.scheme import DEVICE_TAINT_RULES, PODS, TAINT_RULE_VERSIONS
from holdfast.cli.connection import list_all
from holdfast.cli.scheduler_configuration import SchedulerSetup
from holdfast.cli.snapshot import built_in_profiles, snapshot_from_objects
from holdfast.client.client import Client
from holdfast.client.discovery import read_server_release, release_in
from holdfast.client.transport import Response
from holdfast.runtime.feature_gates import NEWEST, FeatureGates
from holdfast.testing import (
    a_claim,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
    a_taint_rule,
)
from holdfast.testing.harness import Harness
from kubernetes_1_37 import Kubernetes137

SERVED = FeatureGates.parse("DRADeviceTaintRules=true")
V1, _ = TAINT_RULE_VERSIONS


def user(name):
    claims = [{"name": "dev", "resourceClaimName": name}]
    return a_claim(name, device_class="gpu"), a_pod(name, cpu="100m", resource_claims=claims)


@pytest.fixture
async def newer(tmp_path):
    """A cluster of 1.37 with one device, whose components got no feature gates."""
    async with Harness(
        tmp_path / "store", feature_gates=SERVED, wrap=lambda inner, _: Kubernetes137(inner)
    ) as cluster:
        cluster.feature_gates = FeatureGates()
        await cluster.restart_components()
        await cluster.create(
            a_node("n1"),
            a_device_class("gpu", extended_resource_name="example.com/gpu"),
            a_slice("s", node="n1", devices=[a_device("gpu-0")]),
        )
        yield cluster


async def test_a_rule_of_1_37_keeps_pods_away_without_a_flag(newer):
    await newer.create(a_taint_rule("broken", driver="gpu.example.com"), *user("p"))
    assert await newer.node_of("p") == ""
    await newer.restart_components()
    assert await newer.node_of("p") == ""
    client = Client(Kubernetes137(newer.client.transport))
    await client.delete(V1, "broken")
    await newer.settle()
    assert await newer.node_of("p") == "n1"


async def test_a_rule_of_1_37_evicts_and_reports_its_progress(newer):
    await newer.create(*user("p"))
    assert await newer.node_of("p") == "n1"
    await newer.create(a_taint_rule("broken", driver="gpu.example.com", effect="NoExecute"))
    await newer.advance(1)
    client = Client(Kubernetes137(newer.client.transport))
    rule = await client.get(V1, "broken")
    assert rule.api_version == "resource.k8s.io/v1"
    said = [(c.type, c.reason) for c in rule.status.conditions]
    assert said == [("EvictionInProgress", "PodsPendingEviction")]
    await newer.advance(11)
    rule = await client.get(V1, "broken")
    assert [c.reason for c in rule.status.conditions] == ["Completed"]


async def test_the_gate_still_turns_rules_of_1_37_off(newer):
    newer.feature_gates = FeatureGates.parse("DRADeviceTaintRules=false")
    await newer.restart_components()
    await newer.create(a_taint_rule("broken", driver="gpu.example.com"), *user("p"))
    assert await newer.node_of("p") == "n1"


async def test_why_follows_the_rules_of_the_cluster_it_asks(newer):
    await newer.create(a_taint_rule("broken", driver="gpu.example.com"), *user("p"))
    client = Client(Kubernetes137(newer.client.transport))
    gates = await SchedulerSetup(client, "https://elsewhere").read_gates("")
    objects = await list_all(client)
    answer = snapshot_from_objects(objects, "default/p", gates).explain(built_in_profiles(), 0.0)
    assert not answer["schedulable"]


async def test_without_served_rules_pods_are_scheduled(tmp_path, caplog):
    gates = FeatureGates()
    async with Harness(
        tmp_path / "store", feature_gates=gates, wrap=lambda inner, _: Kubernetes137(inner)
    ) as cluster:
        await cluster.create(
            a_node("n1"), a_device_class("gpu"),
            a_slice("s", node="n1", devices=[a_device("gpu-0")]), *user("p"),
        )  # fmt: skip
        assert await cluster.node_of("p") == "n1"
    assert "DeviceTaintRules are not served here in resource.k8s.io/v1 or" in caplog.text


@pytest.mark.parametrize(
    ("document", "release"),
    [
        (b'{"major": "1", "minor": "36"}', (1, 36)),
        (b'{"major": "1", "minor": "37+"}', (1, 37)),
        (b'{"major":"1","minor":"37","emulationMajor":"1","emulationMinor":"36"}', (1, 36)),
        (b'{"major": "2", "minor": "0"}', (2, 0)),
        (b'{"major": "", "minor": ""}', NEWEST),
        (b'{"major": 1, "minor": 37}', NEWEST),
        (b"[]", NEWEST),
        (b"<html>", NEWEST),
        (b"", NEWEST),
    ],
)
def test_the_release_is_read_from_any_version_document(document, release):
    assert release_in(document) == release


async def test_a_server_that_hides_its_version_has_the_newest_release():
    class Hidden:
        async def send(self, request):
            return Response(403, {}, b'{"kind": "Status", "code": 403, "reason": "Forbidden"}')

    assert await read_server_release(Client(Hidden())) == NEWEST


class Upgraded(Kubernetes137):
    """Answers as v1.36 does, until the server is upgraded."""

    upgraded = False
    watched_since = ()

    async def send(self, request):
        return await (super() if self.upgraded else self.inner).send(request)

    def stream(self, request):
        if self.upgraded:
            self.watched_since += (request.path,)
        return (super() if self.upgraded else self.inner).stream(request)


@pytest.mark.parametrize("gates", ["", "DRADeviceTaintRules=true"])
async def test_rules_are_followed_when_the_server_is_upgraded_under_the_scheduler(tmp_path, gates):
    """A 1.36 has the gate off, or serves v1beta2; its successor serves v1, with the gate on."""
    servers = []

    def wrap(inner, _clock):
        servers.append(Upgraded(inner))
        return servers[-1]

    async with Harness(tmp_path / "store", feature_gates=SERVED, wrap=wrap) as cluster:
        cluster.feature_gates = FeatureGates.parse(gates)
        await cluster.restart_components()
        await cluster.create(
            a_node("n1"), a_device_class("gpu"), a_slice("s", node="n1", devices=[a_device("g")]),
            a_taint_rule("old", driver="gpu.example.com"), *user("p"),
        )  # fmt: skip
        assert await cluster.node_of("p") == ("" if gates else "n1")
        if not gates:
            await cluster.delete(PODS, "p", "default")
        for server in servers:
            server.upgraded = True
        await cluster.advance(31)
        assert V1.path() in [path for server in servers for path in server.watched_since]
        await cluster.create(*([] if gates else user("q")))
        waiting = "p" if gates else "q"
        assert "cannot allocate all claims" in await cluster.why(waiting)
        await cluster.client.delete(DEVICE_TAINT_RULES, "old")
        await cluster.advance(31)
        assert await cluster.node_of(waiting) == "n1"


class Forbidding(Upgraded):
    """Refuses to list rules, once upgraded."""

    async def send(self, request):
        if self.upgraded and "devicetaintrules" in request.path:
            return Response(
                403, {}, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}'
            )
        return await super().send(request)


async def test_a_right_that_is_missing_after_the_upgrade_is_named(tmp_path, caplog):
    servers = []

    def wrap(inner, _clock):
        servers.append(Forbidding(inner))
        return servers[-1]

    async with Harness(tmp_path / "store", wrap=wrap) as cluster:
        for server in servers:
            server.upgraded = True
        await cluster.advance(31)
        assert "DeviceTaintRules are not followed: " in caplog.text
