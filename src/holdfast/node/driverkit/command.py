"""``driver.run()``: flags, credentials, signals."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.node.driverkit.driver import Driver
from holdfast.node.driverkit.process import DriverProcess, DriverSettings
from holdfast.node.kubelet_api import PLUGINS_DIRECTORY, REGISTRY_DIRECTORY
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import BadConfiguration, HoldfastError

KUBELET_DIRECTORY = Path("/var/lib/kubelet")
CDI_DIRECTORY = Path("/var/run/cdi")
PARTS = ("plugin", "controller", "extender", "all", "crds")
EXTENDER_PORT = 8888
NODE_NAME = "NODE_NAME"
"""Environment variable with the name of the node, set in a DaemonSet by ``fieldRef``."""


def run_driver(driver: Driver, arguments: Sequence[str] | None) -> None:
    """Run a driver until SIGTERM; an error is printed as one sentence and the status is 1."""
    flags = _parser(driver).parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_run(driver, flags))
    except (HoldfastError, OSError) as error:
        print(f"{driver.name}: {error}", file=sys.stderr)
        sys.exit(1)


async def _run(driver: Driver, flags: argparse.Namespace) -> None:
    part = flags.part or ("all" if driver.classic else "plugin")
    if part == "crds":
        print(yaml.safe_dump_all(driver.crds(), sort_keys=False), end="")
        return
    driver.check()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    works, classic = [], driver.classic.parts(driver)
    if part in ("plugin", "all"):
        works.append(_run_plugin(driver, flags, stop))
    if part in ("controller", "all"):
        works.append(classic.run_controller(flags.kubeconfig, stop))
    if part == "extender" or (part == "all" and flags.extender_port is not None):
        port = EXTENDER_PORT if flags.extender_port is None else flags.extender_port
        address = flags.extender_address
        works.append(classic.run_extender(flags.kubeconfig, address, port, stop))
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stop.set()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_plugin(driver: Driver, flags: argparse.Namespace, stop: asyncio.Event) -> None:
    settings, kubeconfig = settings_of(flags)
    endpoint = await load(kubeconfig)
    client = Client(HttpTransport(endpoint), f"holdfast-driver/{driver.name}")
    try:
        process = DriverProcess(driver, settings, client, SystemClock())
        running = asyncio.create_task(process.run(stop))
        announcing = asyncio.create_task(_announce(driver, settings, process))
        try:
            await running
        finally:
            announcing.cancel()
    finally:
        await client.close()


async def _announce(driver: Driver, settings: DriverSettings, process: DriverProcess) -> None:
    await process.registered.wait()
    await process.publisher.published.wait()
    print(f"{driver.name} serves node {settings.node_name}", flush=True)


def settings_of(flags: argparse.Namespace) -> tuple[DriverSettings, Path | None]:
    """Return the settings and the kubeconfig of the flags; raises BadConfiguration.

    The directory of a Holdfast node also contains ``cdi/`` and the node's kubeconfig.
    """
    directory: Path = flags.kubelet_dir
    own = directory / "kubeconfig"
    kubeconfig = flags.kubeconfig or (own if own.is_file() else None)
    node = flags.node_name or os.environ.get(NODE_NAME) or ""
    if not node and own.is_file():
        node = directory.absolute().name
    if not node:
        raise BadConfiguration(f"the node is not known: give --node-name or set {NODE_NAME}")
    cdi = directory / "cdi"
    settings = DriverSettings(
        node_name=node,
        registry_dir=flags.plugins_registry_dir or directory / REGISTRY_DIRECTORY,
        plugins_dir=flags.plugins_dir or directory / PLUGINS_DIRECTORY,
        cdi_dir=flags.cdi_dir or (cdi if cdi.is_dir() else CDI_DIRECTORY),
        health_port=flags.health_port,
    )
    if not settings.registry_dir.is_dir():
        raise BadConfiguration(
            f"{settings.registry_dir} is not a directory: does a kubelet use {directory}? "
            "Give its directory with --kubelet-dir"
        )
    return settings, kubeconfig


def _parser(driver: Driver) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Run the DRA driver {driver.name}.")
    add = parser.add_argument
    add(
        "part",
        nargs="?",
        choices=PARTS,
        help="plugin: on each node; controller: allocates claims (classic DRA); extender: "
        "answers autoscalers; all: plugin and controller; crds: print the CRDs of the parameters "
        "(default: all for a driver of classic DRA, else plugin)",
    )
    add("--node-name", default="", help=f"name of the node (default: ${NODE_NAME})")
    add(
        "--kubelet-dir",
        type=Path,
        default=KUBELET_DIRECTORY,
        help="directory of the kubelet, or of a node of Holdfast (default: %(default)s)",
    )
    add("--plugins-registry-dir", type=Path, help="default: plugins_registry in --kubelet-dir")
    add("--plugins-dir", type=Path, help="default: plugins in --kubelet-dir")
    add("--cdi-dir", type=Path, help=f"default: cdi in --kubelet-dir, else {CDI_DIRECTORY}")
    add("--kubeconfig", type=Path, help="default: kubeconfig in --kubelet-dir, else as kubectl")
    add("--extender-address", default="127.0.0.1", help="default: %(default)s")
    add(
        "--extender-port",
        type=int,
        help=f"port of the extender (default: {EXTENDER_PORT}); with it, all includes the extender",
    )
    add("--health-port", type=int, default=0, help="port of /livez and /readyz (default: none)")
    return parser
