"""``holdfast descheduler``: as a process with a lease, and once with a table."""

import asyncio
import signal

import pytest
import yaml

from cli.conftest import read_until, with_client
from cli.process_requests import LEASES, asked
from descheduler.clusters import owned
from free_port import free_port
from holdfast.api.scheme import NODES, POD_MIGRATION_JOBS, PODS
from holdfast.cli import background
from holdfast.cli.descheduler_command import DeschedulerState, moves_text
from holdfast.client.kubeconfig import load
from holdfast.controllers.descheduler import descheduler as component
from holdfast.processes.descheduler import DeschedulerProcess, load_settings
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.settings import ClusterSettings
from holdfast.testing import a_node

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cli-processes")]
TAINT = {"key": "maintenance", "effect": "NoSchedule"}
CONFIGURATION = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerConfiguration",
    "deschedulingInterval": "1s",
    "profiles": [
        {
            "plugins": {"deschedule": {"enabled": [{"name": "RemovePodsViolatingNodeTaints"}]}},
            "pluginConfig": [
                {
                    "name": "MigrationController",
                    "args": {
                        "schedulerNames": ["default-scheduler"],
                        "skipCheckExpectedReplicas": True,
                    },
                }
            ],
        }
    ],
}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "descheduler.yaml"
    path.write_text(yaml.safe_dump(CONFIGURATION))
    return path


@pytest.fixture
def violated(server):
    """A pod on a node that it does not tolerate, beside an empty node."""

    async def work(client):
        nodes = a_node("d1", taints=[TAINT]), a_node("d2")
        for node in nodes:
            await client.create(NODES, node)
        await client.create(PODS, owned("moves", "d1"), "default")

    async def clean(client):
        await client.delete(PODS, "moves", "default", grace_seconds=0)
        for name in ("d1", "d2"):
            await client.delete(NODES, name)
        for job in (await client.list(POD_MIGRATION_JOBS)).items:
            await client.delete(POD_MIGRATION_JOBS, job.name)

    with_client(server, work)
    yield server
    with_client(server, clean)


def jobs(kubeconfig):
    async def work(client):
        return (await client.list(POD_MIGRATION_JOBS)).items

    return with_client(kubeconfig, work)


def test_once_prints_a_table(violated, config, holdfast):
    flags = "--kubeconfig", violated, "--config", config, "--once"
    dry = holdfast("descheduler", *flags, "--dry-run")
    head, line, end = dry.out.splitlines()
    assert head.split() == ["NAMESPACE", "POD", "NODE", "TARGET", "POLICY", "REASON"]
    assert line.split()[:5] == ["default", "moves", "d1", "d2", "RemovePodsViolatingNodeTaints"]
    assert line.endswith("the pod does not tolerate taint maintenance:NoSchedule of d1")
    assert (dry.code, end, jobs(violated)) == (0, "nothing was written", ())
    wet = holdfast("descheduler", *flags)
    assert wet.out.splitlines()[-1] == "1 PodMigrationJob written"
    (job,) = jobs(violated)
    assert job.spec.pod_ref.name == "moves"
    assert holdfast("descheduler", *flags).out == "no pod should move\n"


def test_of_two_replicas_one_leads_and_the_other_takes_over(violated, config, start):
    ports = free_port(), free_port()
    first = start("descheduler", "--kubeconfig", violated, "--config", config,
                  "--health-port", ports[0])  # fmt: skip
    shown = read_until(first, "descheduling every")
    assert "waiting for the lease kube-system/holdfast-descheduler as " in shown
    assert "descheduling every 1 s for https://127.0.0.1:" in shown
    second = start("descheduler", "--kubeconfig", violated, "--config", config,
                   "--health-port", ports[1])  # fmt: skip
    read_until(second, "waiting for the lease")

    async def work(client):
        while not (await client.list(POD_MIGRATION_JOBS)).items:
            await asyncio.sleep(0.05)
        return (await client.get(LEASES, "holdfast-descheduler", "kube-system"))["spec"]

    assert with_client(violated, work)["holderIdentity"].endswith(f"_{first.pid}")
    for port in ports:
        for page in ("/readyz", "/healthz", "/livez"):
            assert asked(port, page) == (200, "ok")
    assert "holdfast_descheduler_cycles_total" in asked(ports[0], "/metrics")[1]
    assert '"deschedulingInterval": "1s"' in asked(ports[0], "/configz")[1]
    first.send_signal(signal.SIGTERM)
    out, _ = first.communicate(timeout=30)
    assert first.returncode == 0
    assert out.endswith("stopped\n")
    read_until(second, "descheduling every")
    second.send_signal(signal.SIGINT)
    assert second.communicate(timeout=30)[0].endswith("stopped\n")


def test_a_wrong_configuration_is_an_error(holdfast, tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump({**CONFIGURATION, "deschedulingInterval": "-1s", "dry": 1}))
    done = holdfast("descheduler", "--config", path, "--once")
    assert done.code == 1
    assert "deschedulingInterval: Invalid value" in done.err
    assert 'unknown field "dry"' in done.err


def test_nothing_to_move():
    assert moves_text([], dry_run=True) == "no pod should move"


async def test_a_defect_ends_the_process(server, config, monkeypatch):
    def broken(*_arguments):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(component, "plan_moves", broken)
    settings = load_settings(config).with_flags(leader_elect=False, dry_run=True)
    process = DeschedulerProcess(await load(server), settings, SystemClock())
    state = DeschedulerState(
        process=process, clock=SystemClock(), leads=process.leads, metrics=process.metrics_page
    )
    assert state.informer_sync() == "informers are not synced yet"
    try:
        with pytest.raises(HoldfastError, match="the descheduler failed: ZeroDivisionError"):
            await process.run(asyncio.Event())
    finally:
        await process.close()


@pytest.mark.parametrize("wanted", [True, False])
def test_the_cluster_in_the_background_has_a_descheduler_if_it_was_asked_for(tmp_path, wanted):
    arguments = background._arguments(ClusterSettings(tmp_path, descheduler=wanted))
    assert ("--descheduler" in arguments) is wanted
