"""``holdfast controllers`` as a process of its own."""

import asyncio
import json
import signal
import time

import pytest

from cli.conftest import placed, read_until, with_client
from cli.process_requests import HEAD, LEASES, asked
from free_port import free_port
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.cli.controllers_command import ControllersState
from holdfast.client.kubeconfig import load
from holdfast.controllers.reconciler import Reconciler
from holdfast.processes import controllers as controllers_process
from holdfast.processes.controllers import ControllersProcess, default_settings
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import HoldfastError
from holdfast.testing import a_reservation

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cli-processes")]
NAME = "holdfast-controllers"
DEPTH = 'workqueue_depth{name="reservation-controller"}'
METRICS_OF_WORK = (
    'workqueue_adds_total{name="reservation-controller"}',
    'workqueue_retries_total{name="reservation-controller"}',
    'workqueue_queue_duration_seconds_count{name="reservation-controller"}',
    'workqueue_work_duration_seconds_count{name="reservation-controller"}',
    'controller_runtime_reconcile_total{controller="reservation-controller",result="success"}',
    'controller_runtime_reconcile_time_seconds_count{controller="reservation-controller"}',
)


def lease(kubeconfig, name=NAME):
    async def work(client):
        return (await client.get(LEASES, name, "kube-system"))["spec"]

    return with_client(kubeconfig, work)


def available(kubeconfig, name):
    """Create a reservation with a short life; return its status once it has failed."""

    async def work(client):
        await client.create(RESERVATIONS, a_reservation(name, cpu="1", ttl="1s"))
        while (found := await client.get(RESERVATIONS, name)).phase != "Failed":
            await asyncio.sleep(0.05)
        return found.status

    return with_client(kubeconfig, work)


def keep(kubeconfig, name):
    """Create a reservation that is queued again for its end.

    One that has ended already when it is seen first is not.
    """
    with_client(
        kubeconfig,
        lambda client: client.create(RESERVATIONS, a_reservation(name, cpu="1", ttl="1h")),
    )


def metrics_of_work(port):
    """Return the page once a reconcile has ended and no other is queued.

    The metrics follow the write that ends a reconcile, and that write may queue another.
    """
    deadline = time.monotonic() + 60
    while True:
        page = asked(port, "/metrics")[1]
        counted = dict(line.rsplit(" ", 1) for line in page.splitlines() if line[0] != "#")
        shown = {name: float(counted.get(name, 0)) for name in (DEPTH, *METRICS_OF_WORK)}
        if shown[DEPTH] == 0 and all(shown[name] > 0 for name in METRICS_OF_WORK):
            return page
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)  # rendering the page takes time of the process that is to work


def test_a_standby_takes_over_after_the_leader_stops(server, start):
    """Beside a scheduler without controllers; only the leader of the controllers writes."""
    scheduler = start("scheduler", "--kubeconfig", server, "--no-controllers", "--health-port", "0")
    read_until(scheduler, "scheduling for")
    ports = free_port(), free_port()
    first = start("controllers", "--kubeconfig", server, "--health-port", ports[0])
    shown = read_until(first, "running ")
    assert "waiting for the lease kube-system/holdfast-controllers as " in shown
    assert "running reservation-controller" in shown
    assert " for https://127.0.0.1:" in shown
    second = start("controllers", "--kubeconfig", server, "--health-port", ports[1])
    read_until(second, "waiting for the lease")
    assert lease(server)["holderIdentity"].endswith(f"_{first.pid}")
    assert lease(server, "kube-scheduler")["holderIdentity"].endswith(f"_{scheduler.pid}")
    for port in ports:
        for page in ("/readyz", "/healthz", "/livez"):
            assert asked(port, page) == (200, "ok")
    assert [("Leading: yes" in asked(port, "/statusz")[1]) for port in ports] == [True, False]
    assert "holdfast controllers flagz" in asked(ports[0], "/flagz")[1]
    assert available(server, "expires").conditions
    keep(server, "lasts")
    metrics = metrics_of_work(ports[0])
    assert 'leader_election_master_status{name="holdfast-controllers"} 1.0' in metrics
    standby = asked(ports[1], "/metrics")[1]
    assert 'leader_election_master_status{name="holdfast-controllers"} 0.0' in standby
    first.send_signal(signal.SIGTERM)
    out, _ = first.communicate(timeout=30)
    assert (first.returncode, out) == (0, "stopped\n")
    read_until(second, "running reservation-controller")
    assert available(server, "expires-too").conditions
    second.send_signal(signal.SIGINT)
    out, _ = second.communicate(timeout=30)
    assert (second.returncode, out) == (0, "stopped\n")
    assert lease(server)["holderIdentity"] == ""


def test_the_settings_are_read_from_the_configuration_of_the_scheduler(server, start, tmp_path):
    """The lease keeps its own name, so that scheduler and controllers can share the file."""
    config = tmp_path / "config.json"
    plugin = {"name": "Reservation", "args": {"gcDurationSeconds": 1, "gcIntervalSeconds": 1}}
    config.write_text(
        json.dumps(
            HEAD
            | {
                "clientConnection": {"kubeconfig": str(server), "qps": 500, "burst": 1000},
                "leaderElection": {"resourceName": "mine", "leaseDuration": "30s"},
                "profiles": [{"pluginConfig": [plugin]}],
            }
        )
    )
    port = free_port()
    running = start("controllers", "--config", config, "--health-port", port)
    assert "waiting for the lease kube-system/holdfast-controllers" in read_until(
        running, "running "
    )
    assert lease(server)["leaseDurationSeconds"] == 30

    async def work(client):
        await client.create(RESERVATIONS, a_reservation("short", cpu="1", ttl="1s"))
        while any(r.name == "short" for r in (await client.list(RESERVATIONS)).items):
            await asyncio.sleep(0.05)

    with_client(server, work)
    assert "mine" in asked(port, "/configz")[1]


def test_a_wrong_configuration_and_a_missing_kubeconfig_are_errors(holdfast, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(HEAD | {"parallelism": 0}))
    done = holdfast("controllers", "--config", config)
    assert done.code == 1
    assert "parallelism: Invalid value" in done.err
    done = holdfast("controllers", "--kubeconfig", tmp_path / "none")
    assert done.code == 1
    assert "none" in done.err


class Failing(Reconciler):
    name = "failing-controller"
    required_resources = (PODS,)

    async def run(self):
        raise ZeroDivisionError("a defect")


async def test_a_failing_controller_ends_the_process(server, monkeypatch):
    monkeypatch.setattr(controllers_process, "BESIDE_KUBERNETES", (Failing,))
    settings = default_settings(leader_elect=False)
    process = ControllersProcess(await load(server), settings, SystemClock())
    state = ControllersState(
        process=process, clock=SystemClock(), leads=process.leads, metrics=process.metrics_page
    )
    assert state.informer_sync() == "informers are not synced yet"
    shown = []
    monkeypatch.setattr(process, "_started", lambda: shown.append(state.informer_sync()))
    try:
        with pytest.raises(HoldfastError, match="a controller failed: ZeroDivisionError: a defect"):
            await process.run(asyncio.Event())
    finally:
        await process.close()
    assert shown == [""]


async def test_health_names_a_controller_that_has_failed(server, monkeypatch):
    monkeypatch.setattr(controllers_process, "BESIDE_KUBERNETES", (Failing,))
    process = ControllersProcess(
        await load(server), default_settings(leader_elect=False), SystemClock()
    )
    state = ControllersState(
        process=process, clock=SystemClock(), leads=process.leads, metrics=process.metrics_page
    )
    try:
        with pytest.raises(ZeroDivisionError):
            await process.work()
        assert state.alive_checks()["controllers"]() == "ZeroDivisionError: a defect"
        assert state.ready_checks()["controllers"]() == "ZeroDivisionError: a defect"
    finally:
        await process.stop_work()
        await process.close()


def test_scheduler_and_controllers_may_both_run_the_controllers(server, start):
    flags = ("--kubeconfig", server, "--health-port", "0", "--no-leader-elect")
    scheduler = start("scheduler", *flags)
    read_until(scheduler, "scheduling for")
    alone = start("controllers", *flags)
    read_until(alone, "running ")
    assert placed(server, "someone") == "n"
    status = available(server, "twice")
    ready = [c for c in status.conditions if c.type == "Ready"]
    assert [(c.status, c.reason) for c in ready] == [("False", "Expired")]
    for process in (alone, scheduler):
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=30)[0].endswith("stopped\n")
        assert process.returncode == 0
