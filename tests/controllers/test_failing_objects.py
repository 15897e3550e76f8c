"""A controller that fails on one object records an event, backs off and processes the others."""

from __future__ import annotations

from itertools import pairwise

import pytest

from apiserver.direct_store import store_directly
from controllers.small_cluster import start_small_cluster
from holdfast.api.scheme import DEPLOYMENTS, EVENTS, PODS
from holdfast.controllers.controller_manager import ControllerManager
from holdfast.controllers.reconciler import Reconciler
from holdfast.runtime.errors import Invalid
from holdfast.server.store import ObjectKey
from holdfast.testing import a_deployment, a_pod


class Failing(Reconciler):
    """Fails on the pod named bad, and patches it at each attempt if ``changes`` is set."""

    name = "failing-controller"
    required_resources = (PODS,)
    failure: Exception | None = None
    changes = True

    def __init__(self, context):
        super().__init__(context)
        self.attempts: list[tuple[float, str]] = []
        type(self).made = self
        context.informers.get(PODS).add_handler(self._on_pod)

    def _on_pod(self, _kind, _old, new):
        if new is not None:
            self.queue.add(new.key)

    async def reconcile(self, key):
        self.attempts.append((self.clock.monotonic(), key))
        if key == "default/bad" and self.failure is not None:
            if self.changes:
                number = str(len(self.attempts))
                patch = {"metadata": {"annotations": {"attempt": number}}}
                await self.client.patch(PODS, "bad", patch, "default")
            raise self.failure


@pytest.fixture
async def failing(cluster, request):
    Failing.failure = getattr(request, "param", ZeroDivisionError("a bug"))
    Failing.changes = True
    manager = ControllerManager(cluster.client, cluster.clock, kinds=(Failing,))
    await manager.start()
    try:
        yield Failing.made
    finally:
        await manager.stop()


def lines(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "holdfast.client.workqueue"]


async def events_of(cluster, name):
    listed = (await cluster.client.list(EVENTS, "default")).items
    return [e for e in listed if e.involved_object.name == name]


async def test_a_failing_object_is_named_in_an_event_and_once_a_minute_in_the_log(
    cluster, failing, caplog
):
    await cluster.create(a_pod("bad"), a_pod("good"))
    await cluster.clock.advance(150)
    events = [e for e in await events_of(cluster, "bad") if e.reason == "FailedReconcile"]
    assert [e.message for e in events] == ["Error: ZeroDivisionError: a bug"]
    assert not [e for e in await events_of(cluster, "good") if e.reason == "FailedReconcile"]
    logged = [line for line in lines(caplog) if "default/bad" in line]
    assert 2 <= len(logged) <= 3
    assert "repeated" in logged[-1]
    assert any(key == "default/good" for _, key in failing.attempts)


async def test_a_failing_object_that_its_controller_changes_is_retried_once_a_second(
    cluster, failing
):
    await cluster.create(a_pod("bad"))
    await cluster.clock.advance(100)
    since = [at for at, key in failing.attempts if key == "default/bad" and at > 10]
    assert len(since) <= 91


async def test_an_unchanged_failing_object_is_retried_every_five_minutes(cluster, failing):
    Failing.changes = False
    await cluster.create(a_pod("bad"))
    await cluster.clock.advance(1500)
    times = [at for at, key in failing.attempts if key == "default/bad"]
    waits = [later - at for at, later in pairwise(times)]
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(300)


async def test_a_corrected_object_is_retried_after_a_second(cluster, failing):
    await cluster.create(a_pod("bad"))
    await cluster.clock.advance(30)
    Failing.failure = None
    mended = {"metadata": {"labels": {"mended": "true"}}}
    await cluster.client.patch(PODS, "bad", mended, "default")
    await cluster.clock.advance(1)
    assert failing.queue.failures("default/bad") == 0


@pytest.mark.parametrize("failing", [Invalid("spec is wrong")], indirect=True)
async def test_the_message_of_the_server_is_in_the_event(cluster, failing):
    await cluster.create(a_pod("bad"))
    await cluster.clock.advance(30)
    events = [e for e in await events_of(cluster, "bad") if e.reason == "FailedReconcile"]
    assert [e.message for e in events] == ["Error: spec is wrong"]


async def test_an_invalid_stored_deployment_is_reported_and_can_be_corrected(tmp_path):
    broken = a_deployment("broken")
    broken["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "Ki"}}
    await store_directly(tmp_path, (ObjectKey("apps", "deployments", "default", "broken"), broken))
    async with start_small_cluster(tmp_path) as cluster:
        await cluster.create(a_deployment("sound", replicas=2))
        await cluster.clock.advance(60)
        events = await events_of(cluster, "broken")
        assert {e.reason for e in events} == {"FailedReconcile"}
        assert [pod.name.startswith("sound-") for pod in await cluster.pods()] == [True, True]
        limits = {"rollingUpdate": {"maxSurge": 1}}
        await cluster.client.patch(DEPLOYMENTS, "broken", {"spec": {"strategy": limits}}, "default")
        await cluster.clock.advance(5)
        assert len(await cluster.pods()) == 3
