"""The HTTP pages of a scheduler process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from aiohttp import web

from holdfast.api.scheme import PODS
from holdfast.cli.health import HealthChecks, ProcessState, plain_text
from holdfast.scheduling.scheduler.dump import node_reservations
from holdfast.scheduling.scheduler.ignored_allocations import ignored_allocations
from holdfast.scheduling.scheduler.koordinator_pages import (
    device_summaries,
    device_summary,
    numa_node,
)
from holdfast.scheduling.scheduler.object_metrics import resources_page
from holdfast.scheduling.scheduler.scheduler import Scheduler

NUMA_PAGE = "/apis/v1/plugins/NodeNUMAResource/nodes/{node}"
DEVICE_PAGES = "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries"


@dataclass(slots=True, kw_only=True)
class SchedulerState(ProcessState):
    """The state of a scheduler process."""

    command: ClassVar[str] = "scheduler"
    scheduler: Scheduler

    def alive_checks(self) -> HealthChecks:
        """Return the checks of /healthz and /livez."""
        return {**ProcessState.alive_checks(self), "scheduling": self.scheduling}

    def ready_checks(self) -> HealthChecks:
        """Return the checks of /readyz."""
        return {
            **ProcessState.ready_checks(self),
            "informer-sync": self.informer_sync,
            "sched-handler-sync": self.handler_sync,
        }

    def scheduling(self) -> str:
        """Return why scheduling or watching the cluster fails, or ""."""
        scheduler = self.scheduler
        if self.leads() and scheduler.synced.is_set() and not self.stopping():
            return scheduler.failure_reason
        return ""

    def informer_sync(self) -> str:
        """Return why the informers are not synced, or ""."""
        if not self.leads() or self.scheduler.synced.is_set():
            return ""
        return "informers are not synced yet"

    def handler_sync(self) -> str:
        """Return why the event handlers are not synced, or ""."""
        return "handlers are not fully synchronized" if self.informer_sync() else ""

    def pages(self) -> list[web.RouteDef]:
        """Return the pages in addition to the health checks."""
        return [
            *ProcessState.pages(self),
            web.get("/metrics/resources", self._resources),
            web.get("/nodeReservations/{node}", self._reservations),
            web.get("/ignoredAllocations", self._ignored_allocations),
            web.get(NUMA_PAGE, self._numa_node),
            web.get(DEVICE_PAGES, self._all_devices),
            web.get(f"{DEVICE_PAGES}/{{node}}", self._devices),
        ]

    async def _resources(self, _request: web.Request) -> web.Response:
        """Only the leader exports these: otherwise each pod would be counted once per replica."""
        pods = self.scheduler.informers.informer_set.get(PODS).cache
        return plain_text(resources_page(pods.values() if self.leads() else ()))

    async def _ignored_allocations(self, _request: web.Request) -> web.Response:
        return web.json_response(ignored_allocations(self.scheduler.world))

    async def _numa_node(self, request: web.Request) -> web.Response:
        page = numa_node(self.scheduler.world, request.match_info["node"])
        if page is None:
            return web.Response(status=404, text="there is no such node")
        if isinstance(page, str):
            return web.Response(status=500, text=page)
        return web.json_response(page)

    async def _all_devices(self, _request: web.Request) -> web.Response:
        return web.json_response(device_summaries(self.scheduler.world))

    async def _devices(self, request: web.Request) -> web.Response:
        node = request.match_info["node"]
        page = device_summary(self.scheduler.world, node)
        if page is None:
            return web.Response(status=404, text=f"cannot find node {node}")
        return web.json_response(page)

    async def _reservations(self, request: web.Request) -> web.Response:
        page = node_reservations(self.scheduler.world, request.match_info["node"])
        if page is None:
            return web.Response(status=404, text="there is no such node")
        return web.json_response(page)
