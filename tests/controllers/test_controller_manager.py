"""The controller manager: controllers start after the sync, and a failure is reported."""

from __future__ import annotations

import asyncio
import logging

import pytest

from apiserver import every_kind
from controllers.small_cluster import start_small_cluster
from holdfast.api.resource import Resource
from holdfast.api.scheme import NODES, PODS
from holdfast.controllers.controller_manager import ControllerManager
from holdfast.controllers.reconciler import Reconciler
from holdfast.testing import a_node, a_pod


class Failing(Reconciler):
    name = "failing-controller"
    required_resources = (PODS,)

    async def run(self):
        raise ZeroDivisionError("a bug")


class NodeCounting(Reconciler):
    """Records the number of cached nodes at each call of ``reconcile``."""

    name = "node-counting-controller"
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
        manager = ControllerManager(cluster.client, cluster.clock, kinds=(Failing,))
        await manager.start()
        failing = asyncio.create_task(manager.failure())
        await cluster.clock.advance(5)
        with pytest.raises(ZeroDivisionError):
            await failing
        assert not manager.healthy
        await manager.stop()


async def test_controllers_start_after_all_informers_have_synced(tmp_path):
    async with start_small_cluster(tmp_path) as cluster:
        await cluster.create(a_node("n1"), a_node("n2"), a_pod("p"))
        manager = ControllerManager(cluster.client, cluster.clock, kinds=(NodeCounting,))
        await manager.start()
        await cluster.clock.settle()
        await manager.stop()
        assert set(NodeCounting.seen) == {2}


WIDGETS = Resource("example.com", "v1", "widgets", "Widget", dict)
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", dict,
    namespaced=False,
)  # fmt: skip


class WidgetController(Reconciler):
    name = "widget-controller"
    required_resources = (WIDGETS,)


async def test_a_controller_starts_when_its_custom_resource_is_installed(tmp_path, caplog):
    caplog.set_level(logging.INFO, "holdfast.controllers")
    async with start_small_cluster(tmp_path) as cluster:
        manager = ControllerManager(cluster.client, cluster.clock, kinds=(WidgetController,))
        await manager.start()
        await cluster.clock.settle()
        assert (manager.running, manager.ready) == ((), True)
        assert "the widget-controller waits until widgets are served here" in caplog.text
        await cluster.clock.advance(40)
        assert manager.running == ()
        await cluster.client.create(DEFINITIONS, every_kind.WIDGETS)
        await cluster.clock.advance(40)
        assert manager.running == ("widget-controller",)
        assert manager.healthy
        assert caplog.text.count("the widget-controller ") == 2
        assert "the widget-controller runs now" in caplog.text
        await manager.stop()


async def test_a_failing_informer_of_its_own_is_reported(tmp_path, monkeypatch):
    async with start_small_cluster(tmp_path) as cluster:
        manager = ControllerManager(cluster.client, cluster.clock, kinds=(NodeCounting,))
        await manager.start()
        failing = asyncio.create_task(manager.failure())
        monkeypatch.setattr(manager.informers.get(NODES)._objects, "put", lambda *_: 1 / 0)
        await cluster.create(a_node("n"))
        await cluster.clock.advance(5)
        with pytest.raises(ZeroDivisionError):
            await failing
        assert manager.failure_reason == "ZeroDivisionError: division by zero"
        await manager.stop()
