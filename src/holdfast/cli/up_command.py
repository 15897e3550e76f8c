"""``holdfast up``: run the embedded cluster until a stop signal, or until a component fails."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.cli import garbage_collection, running_cluster, signals
from holdfast.cli.apiserver_command import warn_if_not_loopback
from holdfast.cli.published_setup import publish
from holdfast.cli.scheduler_configuration import load_configuration
from holdfast.processes.cluster import Cluster
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.settings import ClusterSettings, NodeSettings
from holdfast.scheduling.configuration.reading import Configuration, effective_configuration
from holdfast.scheduling.scheduler.dump import log_dump

if TYPE_CHECKING:
    from holdfast.processes.descheduler import DeschedulerConfiguration

DEFAULT_PROFILE = "default-scheduler"
"""The schedulerName of pods that set none; no other scheduler runs in the embedded cluster."""
T = TypeVar("T")
log = logging.getLogger(__name__)


def run_cluster(settings: ClusterSettings) -> None:
    """Run the cluster; raise HoldfastError if it ends without a stop signal."""
    warn_if_not_loopback(settings.server.host)
    configuration = load_configuration(settings.scheduler.config)
    if DEFAULT_PROFILE not in configuration.profiles:
        profiles = ", ".join(configuration.profiles)
        print(
            f"warning: {settings.scheduler.config} has no profile {DEFAULT_PROFILE}: pods without "
            f"spec.schedulerName stay Pending (its profiles: {profiles})",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    signals.run(_run(settings, configuration))


async def _run(settings: ClusterSettings, configuration: Configuration) -> None:
    stop = signals.stop_event()
    running_cluster.write_starting(settings.data_dir, os.getpid())
    try:
        await _run_until(stop, settings, configuration)
    finally:
        running_cluster.remove_starting(settings.data_dir)


async def _run_until(
    stop: asyncio.Event, settings: ClusterSettings, configuration: Configuration
) -> None:
    cluster = Cluster(settings, SystemClock(), configuration, _descheduling(settings))
    signals.on_dump_signal(partial(_dump, cluster))
    with _progress() as show_progress:
        await _unless(stop, cluster.start(show_progress))
    if stop.is_set():
        await cluster.stop()
        return
    garbage_collection.freeze_existing_objects()
    failure = ""
    try:
        async with _pages(settings, cluster, configuration) as pages:
            await publish(cluster.kubeconfig, settings.scheduler)
            running_cluster.write_file(
                settings.data_dir, cluster.url, cluster.kubeconfig,
                config=settings.scheduler.config, pages=pages,
                feature_gates=str(settings.scheduler.feature_gates),
            )  # fmt: skip
            running_cluster.remove_starting(settings.data_dir)
            _print_addresses(settings, cluster, pages)
            failure = await _unless(stop, cluster.failure()) or ""
    finally:
        with _progress() as show_progress:
            show_progress("stopping")
            await cluster.stop()
        running_cluster.remove_file(settings.data_dir)
    if failure:
        raise HoldfastError(f"{failure}; the cluster was stopped, its data is safe")
    print(f"stopped; the data stays in {settings.data_dir}", flush=True)


def _descheduling(settings: ClusterSettings) -> DeschedulerConfiguration | None:
    """Return the configuration of the descheduler, None if it does not run."""
    if not settings.descheduler:
        return None
    from holdfast.cli.descheduler_command import print_warnings  # noqa: PLC0415 - seldom needed
    from holdfast.processes.descheduler import load_settings  # noqa: PLC0415

    config = settings.scheduler.config
    configuration = load_settings(config, required=False).configuration
    print_warnings(configuration, config)
    return configuration


def _dump(cluster: Cluster) -> None:
    if cluster.components is None:
        log.warning("SIGUSR2: no dump, the scheduler has not been started yet")
    else:
        log_dump(cluster.components.scheduler)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Await a coroutine; cancel it and return None if the stop event is set first."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not working.done():
            working.cancel()
        await asyncio.wait({working, stopping})
    return None if working.cancelled() else working.result()


@asynccontextmanager
async def _pages(
    settings: ClusterSettings, cluster: Cluster, configuration: Configuration
) -> AsyncIterator[str]:
    """Serve the scheduler's health and metrics if --health-port is set; yield the URL, or ""."""
    if settings.health_port is None or cluster.components is None:
        yield ""
        return
    from holdfast.cli.health import HealthServer  # noqa: PLC0415 - seldom needed
    from holdfast.cli.scheduler_pages import SchedulerState  # noqa: PLC0415

    flags = {
        "data-dir": settings.data_dir, "nodes": settings.nodes.count,
        "health-port": settings.health_port, **asdict(settings.scheduler),
        "feature_gates": str(settings.scheduler.feature_gates),
    }  # fmt: skip
    scheduler = cluster.components.scheduler
    subject = SchedulerState(
        scheduler=scheduler,
        clock=SystemClock(),
        leads=lambda: True,
        metrics=scheduler.metrics_page,
        configuration=effective_configuration(configuration),
        flags=flags,
    )
    page = await HealthServer.start(settings.health_port, subject)
    try:
        yield page.url
    finally:
        await page.close()


def _print_addresses(settings: ClusterSettings, cluster: Cluster, pages: str) -> None:
    wanted, count = settings.nodes.count, cluster.nodes
    print(f"Holdfast is up at {cluster.url} with {count} node{'' if count == 1 else 's'}.")
    if count > wanted:
        print(f"  {count - wanted} more than --nodes: nodes stay until `kubectl delete node`.")
    if line := _process_line(settings.nodes, cluster.driver_nodes):
        print(line)
    print(f"  export KUBECONFIG={cluster.kubeconfig}")
    print("  kubectl get nodes")
    if pages:
        print(f"  curl {pages}/metrics")
    flag = running_cluster.flag_for(settings.data_dir)
    print(f"Stop it with Ctrl-C or `holdfast down{flag}`.", flush=True)


def _process_line(nodes: NodeSettings, driver_nodes: list[str]) -> str:
    """Return the line that says which pods run as processes, or ""."""
    which = "Pods" if nodes.runtime == "process" else "Pods that ask for it"
    if nodes.runtime != "process" and not nodes.allow_process_runtime:
        return ""
    if not driver_nodes:
        return "  No node has an agent (--driver-nodes): all pods are simulated."
    where = ", ".join(driver_nodes)
    return (
        f"  {which} on {where} run as processes of your user, not isolated; all others are "
        "simulated."
    )


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows progress on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _words: None
        return
    from rich.console import Console  # noqa: PLC0415 - needed on a terminal only

    with Console(stderr=True, highlight=False).status("starting") as line:
        yield line.update
