"""The embedded cluster: progress, failing parts, restarts."""

import asyncio
from pathlib import Path

import pytest

from holdfast.api.scheme import NODES, PODS
from holdfast.client.client import Client
from holdfast.processes.cluster import Cluster
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import Refused
from holdfast.runtime.settings import (
    ClusterSettings,
    NodeSettings,
    SchedulerSettings,
    ServerSettings,
)
from holdfast.scheduling.engine.audit import Auditor
from holdfast.server.inprocess import InProcessTransport
from holdfast.testing import a_pod


def admin_of(cluster):
    return Client(InProcessTransport(cluster.server.server))


def settings(directory: Path, *, port=0, nodes=1, check=False):
    return ClusterSettings(
        data_dir=directory, single_process=True, server=ServerSettings(port=port),
        nodes=NodeSettings(nodes), scheduler=SchedulerSettings(check_invariants=check),
    )  # fmt: skip


@pytest.fixture
async def cluster(tmp_path):
    """A cluster in this process that checks its invariants after every decision."""
    made = Cluster(settings(tmp_path, check=True), SystemClock())
    await made.start()
    yield made
    await made.stop()


async def test_start_reports_progress_and_counts_nodes(tmp_path):
    steps = []
    cluster = Cluster(settings(tmp_path, nodes=2), SystemClock())
    await cluster.start(steps.append)
    try:
        assert steps == [
            "starting the API server", "starting the controllers", "starting the scheduler",
            "starting 2 nodes",
        ]  # fmt: skip
        assert cluster.nodes == 2
        assert cluster.healthy
    finally:
        await cluster.stop()
    assert not cluster.healthy


async def test_stored_nodes_are_kept_whatever_number_is_configured(tmp_path):
    for asked, there in ((3, 3), (1, 3), (4, 4)):
        cluster = Cluster(settings(tmp_path, nodes=asked), SystemClock())
        await cluster.start()
        try:
            assert cluster.nodes == there
            listing = await admin_of(cluster).list(NODES)
            assert len(listing.items) == there
        finally:
            await cluster.stop()


async def test_the_failure_names_the_part_and_its_error(cluster, monkeypatch):
    def broken(_auditor):
        raise AssertionError("I1: 9 of cpu are requested on n, allocatable 8")

    monkeypatch.setattr(Auditor, "raise_faults", broken)
    noticing = asyncio.create_task(cluster.failure())
    await asyncio.sleep(0)
    assert not noticing.done()
    await admin_of(cluster).create(PODS, a_pod("p"), "default")
    assert await noticing == (
        "the scheduler has died: AssertionError: I1: 9 of cpu are requested on n, allocatable 8"
    )


@pytest.mark.parametrize(("part", "name"), [("controllers", "controllers"),
                                            ("simulated_nodes", "simulated nodes")])  # fmt: skip
async def test_failures_of_other_parts_are_reported_too(cluster, part, name):
    await getattr(cluster.components, part).stop()
    assert await cluster.failure() == f"the {name} have died"


async def test_a_failed_start_leaves_nothing_running(cluster, tmp_path):
    port = int(cluster.url.rpartition(":")[2])
    other = tmp_path / "other"
    second = Cluster(settings(other, port=port), SystemClock())
    with pytest.raises(Refused, match=f"cannot listen on 127.0.0.1:{port}"):
        await second.start()
    # The data directory is unlocked again.
    third = Cluster(settings(other), SystemClock())
    await third.start()
    await third.stop()


async def test_acknowledged_objects_survive_a_restart(tmp_path):
    cluster = Cluster(settings(tmp_path), SystemClock())
    await cluster.start()
    client = admin_of(cluster)
    for i in range(100):
        await client.create(PODS, a_pod(f"p{i}", cpu="1m"), "default")
    await cluster.stop()  # while pods are being scheduled and bound
    again = Cluster(settings(tmp_path), SystemClock())
    await again.start()
    try:
        client = admin_of(again)
        found = (await client.list(PODS)).items
        while not all(pod.spec.node_name for pod in found):
            await asyncio.sleep(0.02)
            found = (await client.list(PODS)).items
        assert {pod.name for pod in found} == {f"p{i}" for i in range(100)}
    finally:
        await again.stop()
