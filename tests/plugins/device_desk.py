"""DynamicResources on a world of objects, its writes carried out by an API in memory."""

from contextlib import suppress
from types import SimpleNamespace

from holdfast.runtime.errors import HoldfastError
from holdfast.scheduling.framework.plugin import Placement, Reject, Skip
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.dynamic_resources import DynamicResources
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
        return self.plugin.pre_filter(self.pod_info(raw), self.view(self.pod_info(raw)))

    def post_filter(self, plan, rng=None):
        rejection = SimpleNamespace(plans={self.plugin.name: plan}, rng=rng)
        return self.plugin.post_filter(rejection, None)

    def verdicts(self, plan):
        rows = self.world.nodes.rows
        return dict(
            zip(
                (self.world.nodes.names[row] for row in rows),
                plan.filter(rows).tolist(),
                strict=True,
            )
        )

    def reasons(self, plan, node):
        return plan.reasons(self.world.nodes.row_of[node])

    def reserve(self, raw, node):
        """Decide that the pod goes to the node; answers what later points need."""
        plan = self.pre_filter(raw)
        assert not isinstance(plan, (Reject, Skip)), plan
        assert self.verdicts(plan)[node] == 0
        row = self.world.nodes.row_of[node]
        placement = Placement(self.pod_info(raw), row, node, {self.plugin.name: plan})
        assert plan.reserve(placement) is None
        return plan, placement

    def bind(self, raw, node):
        plan, placement = self.reserve(raw, node)
        self.api.drive(plan.pre_bind(placement))
        return plan, placement

    def undo(self, plan, placement):
        with suppress(HoldfastError):  # The scheduler logs it.
            self.api.drive(plan.undo_pre_bind(placement))
        plan.unreserve(placement)


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
