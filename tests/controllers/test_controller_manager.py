"""The controller manager: controllers start after the sync, and a failure is reported."""

from __future__ import annotations

import asyncio

import pytest

from controllers.small_cluster import start_small_cluster
from holdfast.api.scheme import NODES, PODS
from holdfast.controllers.controller_manager import ControllerManager
from holdfast.controllers.reconciler import Reconciler
from holdfast.testing import a_node, a_pod


class Dying(Reconciler):
    name = "dying-controller"
    required_resources = (PODS,)

    async def run(self):
        raise ZeroDivisionError("a bug")


class Curious(Reconciler):
    """Records the number of cached nodes at each call of ``reconcile``."""

    name = "curious-controller"
    required_resources = (PODS, NODES)
    seen: tuple[int, ...] = ()

    def __init__(self, context):
        super().__init__(context)
        self._nodes = context.informers.get(NODES)
        context.informers.get(PODS).add_handler(lambda _kind, _old, new: self.queue.add(new.key))

    async def reconcile(self, key):
        type(self).seen += (len(self._nodes.cache),)


async def test_a_controller_that_fails_is_reported(tmp_path):
    async with start_small_cluster(tmp_path) as cluster:
        group = ControllerManager(cluster.client, cluster.clock, kinds=(Dying,))
        await group.start()
        failing = asyncio.create_task(group.failure())
        await cluster.clock.advance(5)
        with pytest.raises(ZeroDivisionError):
            await failing
        assert not group.healthy
        await group.stop()


async def test_controllers_start_after_all_informers_have_synced(tmp_path):
    async with start_small_cluster(tmp_path) as cluster:
        await cluster.create(a_node("n1"), a_node("n2"), a_pod("p"))
        group = ControllerManager(cluster.client, cluster.clock, kinds=(Curious,))
        await group.start()
        await cluster.clock.settle()
        await group.stop()
        assert set(Curious.seen) == {2}
