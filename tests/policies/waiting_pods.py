"""A cluster in which governed pods can wait on Permit."""

from dataclasses import replace

from holdfast.scheduling.plugins import default_profiles
from policies.objects import policy
from scheduler.permit_plugins import WaitPlugin


async def with_permit(start):
    """Start a cluster in which pods with the annotation Wait wait on Permit."""
    plugin, stock = WaitPlugin(), default_profiles()["default-scheduler"]
    profiles = {stock.name: replace(stock, plugins=(*stock.plugins, plugin))}
    cluster = await start(profiles=profiles)
    await cluster.create(policy())
    return cluster, plugin
