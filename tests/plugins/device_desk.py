"""DynamicResources on a world of objects, its writes carried out by an API in memory."""

from contextlib import suppress

from holdfast.errors import HoldfastError
from holdfast.framework.plugin import Placement, PreFilterState, Reject, Skip
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.plugins.dynamic_resources import DynamicResources
from holdfast.testing import a_device_class, a_node, a_slice, typed
from holdfast.testing.memory_api import MemoryApi

GPU = "example.com/gpu"
NOW = 1_900_000_000.0


class Desk:
    """A cluster of objects and the plugin under test."""

    def __init__(self, *objects, fail=lambda call: None, **args):
        self.world = World()
        self.api = MemoryApi(self.world, fail)
        self.plugin = DynamicResources({"preemptDevices": False} | args)
        for raw in objects:
            if raw["kind"] in ("ResourceClaim", "Pod"):
                self.api.put(raw)
            else:
                self.world.upsert(typed(raw))

    @property
    def claims(self):
        return self.world.devices.claims

    def pod_info(self, raw):
        return self.world.pod_info(typed(raw))

    def view(self, pod):
        return View(self.world, pod, NOW)

    def pre_filter(self, raw):
        answer = self.plugin.pre_filter(self.pod_info(raw), self.view(self.pod_info(raw)))
        return answer.state if isinstance(answer, PreFilterState) else answer

    def verdicts(self, demand):
        rows = self.world.nodes.rows
        return dict(
            zip(
                (self.world.nodes.names[row] for row in rows),
                self.plugin.filter(demand, rows).tolist(),
                strict=True,
            )
        )

    def reasons(self, demand, node):
        return self.plugin.reasons(demand, self.world.nodes.row_of[node])

    def reserve(self, raw, node):
        """Decide that the pod goes to the node; answers what later points need."""
        demand = self.pre_filter(raw)
        assert not isinstance(demand, (Reject, Skip)), demand
        assert self.verdicts(demand)[node] == 0
        row = self.world.nodes.row_of[node]
        placement = Placement(self.pod_info(raw), row, node, {self.plugin.name: demand})
        assert self.plugin.reserve(demand, placement) is None
        return demand, placement

    def bind(self, raw, node):
        demand, placement = self.reserve(raw, node)
        self.api.drive(self.plugin.pre_bind(demand, placement))
        return demand, placement

    def undo(self, demand, placement):
        with suppress(HoldfastError):  # The scheduler logs it.
            self.api.drive(self.plugin.undo_pre_bind(demand, placement))
        self.plugin.unreserve(demand, placement)


def using(*names):
    return [{"name": name, "resourceClaimName": name} for name in names]


def devices_of(raw):
    return [r["device"] for r in raw["status"]["allocation"]["devices"]["results"]]


def one_gpu(*more, **options):
    return Desk(
        a_node("n"), a_device_class("gpu"), a_slice("n-gpu", node="n", devices=1), *more, **options
    )


def extended(*objects, **options):
    return Desk(
        a_device_class("gpu", extendedResourceName=GPU),
        a_slice("n-gpu", node="n", devices=2),
        *objects,
        **options,
    )
