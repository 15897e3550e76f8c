"""``holdfast devices``: read the objects of the cluster, choose devices, print them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from holdfast.api import scheme
from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES, NodeInventory
from holdfast.api.devices import DeviceTaintRule
from holdfast.api.meta import Object
from holdfast.cli.classic_dra.inventories import as_table, classic_devices
from holdfast.cli.connection import connect, list_all, list_if_allowed, list_objects
from holdfast.cli.devices.choosing import Filter, choose
from holdfast.cli.devices.pools import as_data, as_text
from holdfast.cli.devices.shared_devices import shared_as_text, shared_devices
from holdfast.cli.scheduler_configuration import SchedulerSetup
from holdfast.cli.table import print_json
from holdfast.client.client import Client
from holdfast.runtime.errors import Forbidden
from holdfast.runtime.feature_gates import Feature, FeatureGates

READ = (scheme.NODES, scheme.DEVICE_CLASSES, scheme.RESOURCE_SLICES, scheme.RESOURCE_CLAIMS)
READ_FOR_SHARED = (scheme.NODES, scheme.PODS, scheme.RESERVATIONS)
NO_DEVICES = (
    "there are no devices: there is no ResourceSlice of resource.k8s.io/v1; drivers publish them, "
    "and docs/devices.md says how to write one. Nor is there a Device of "
    "scheduling.koordinator.sh/v1alpha1, for GPUs that pods share (docs/numa-and-gpus.md)"
)


@dataclass(frozen=True, slots=True)
class _Found:
    """The objects that describe devices of drivers, of classic drivers, and shared devices."""

    objects: list[Object]
    inventories: Sequence[NodeInventory]
    shared: list[Object]
    """Devices with the pods and reservations that may hold them; empty without Devices."""
    gates: FeatureGates


def run(which: Filter, kubeconfig: Path | None, feature_gates: str, output: str) -> None:
    """Print the devices."""
    cluster = asyncio.run(_read(kubeconfig, feature_gates))
    listing = choose(cluster.objects, cluster.gates, which)
    classic = classic_devices(cluster.inventories, which)
    shared = shared_devices(cluster.shared, which)
    data = as_data(listing) | {"classicDevices": classic, "sharedDevices": shared}
    if output == "json":
        print_json(data)
    elif output == "yaml":
        sys.stdout.write(yaml.safe_dump(data, sort_keys=False))
    else:
        wide = output == "wide"
        sections = [
            as_text(listing, wide=wide),
            as_table(classic, wide=wide) if classic else "",
            shared_as_text(shared, wide=wide) if shared else "",
        ]
        if not listing.pools and not classic and not shared:
            some = listing.left_out or cluster.inventories or cluster.shared
            print("these flags choose no device" if some else NO_DEVICES)
        if text := "\n\n".join(filter(None, sections)):
            print(text)


async def _read(kubeconfig: Path | None, chosen: str) -> _Found:
    async with connect(kubeconfig, "holdfast-devices") as (client, endpoint):
        gates = await SchedulerSetup(client, endpoint.url, kubeconfig).read_gates(chosen)
        rules = await _rules(client) if gates.enabled(Feature.DEVICE_TAINT_RULES) else ()
        objects = [*await list_all(client, READ), *rules]
        return _Found(
            objects, await list_if_allowed(client, NODE_INVENTORIES), await _shared(client), gates
        )


async def _shared(client: Client) -> list[Object]:
    """List Devices and what holds them."""
    devices = await list_if_allowed(client, scheme.SHARED_DEVICES)
    return [*await list_all(client, READ_FOR_SHARED), *devices] if devices else []


async def _rules(client: Client) -> Sequence[DeviceTaintRule]:
    """List DeviceTaintRules; a cluster may not serve them, a reader may have no rights to them."""
    try:
        for resource in scheme.TAINT_RULE_VERSIONS:
            if rules := await list_objects(client, resource):
                return rules
    except Forbidden:
        words = "taints of DeviceTaintRules are not shown: you have no right to list them"
        print(f"holdfast: {words}", file=sys.stderr)
    return ()
