"""Clusters that pre-allocate running pods."""

from contextlib import asynccontextmanager

from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.plugins import REGISTRY
from holdfast.testing.harness import Harness

CLUSTER = {"mode": "Cluster"}


@asynccontextmanager
async def configured(tmp_path, **config):
    args = {"Reservation": {"preAllocationConfig": config}}
    profile = build_profile("default-scheduler", REGISTRY, args=args)
    configuration = Configuration({"default-scheduler": profile})
    async with Harness(tmp_path / "store", configuration=configuration) as cluster:
        yield cluster
