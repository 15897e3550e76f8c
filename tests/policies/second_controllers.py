"""Controllers that run twice, in the scheduler's process and alone."""

from contextlib import asynccontextmanager

from holdfast.client.client import Client
from holdfast.controllers.controller_manager import BESIDE_KUBERNETES, ControllerManager
from holdfast.controllers.profile_settings import controller_settings
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.plugins import default_profiles
from holdfast.server.inprocess import InProcessTransport
from rights import RestrictedTransport

PROFILES = default_profiles({"Reservation": {"gcDurationSeconds": 300}})


@asynccontextmanager
async def second_controllers(cluster, writes):
    """Run the controllers of `holdfast controllers` too, with its rights in deploy/rbac."""
    restricted = RestrictedTransport(
        InProcessTransport(cluster.server), "holdfast-controllers", cluster.failures.append
    )
    client = Client(writes.wrap(restricted, cluster.clock), "holdfast-controllers")
    settings = controller_settings(Configuration(PROFILES))
    manager = ControllerManager(client, cluster.clock, kinds=BESIDE_KUBERNETES, settings=settings)
    await cluster.as_time_passes(manager.start())
    try:
        yield manager
    finally:
        await cluster.as_time_passes(manager.stop())
