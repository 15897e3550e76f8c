"""``Driver``: the name of a driver and the functions of its author."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.api.validation.device_names import check_driver
from holdfast.node.driverkit.author_functions import AuthorFunction, F
from holdfast.node.driverkit.claims import Claim, Prepared
from holdfast.node.driverkit.classic_dra.functions import ClassicFunctions
from holdfast.node.driverkit.inventory import Device, InvalidInventory, Item, Taint, pools_of
from holdfast.runtime.errors import BadConfiguration

REFRESH_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """Why a device cannot be used; ``NoExecute`` also evicts the pods that use it."""

    reason: str
    effect: str = "NoSchedule"


class Driver:
    """A DRA driver: decorate the functions of the author, then ``run()``.

    Functions may be sync (they run in a thread, one at a time) or async. ``prepare`` may be called
    again for a claim if the process was killed; afterwards its result is remembered.

    With ``fits`` (or ``handlers``) it is a driver of classic DRA: it allocates claims itself, by
    parameters of the types ``params`` and ``class_params``. Its NodeInventories and its lease are
    in ``namespace``, by default one with the name of the driver. Devices for which ``structured``
    returns True are published in ResourceSlices instead: the scheduler allocates them.
    """

    def __init__(
        self,
        name: str,
        *,
        params: type | None = None,
        class_params: type | None = None,
        handle: type | None = None,
        namespace: str = "",
        structured: Callable[[Device], bool] | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        if causes := [cause.message for cause in check_driver(name, "name")]:
            raise BadConfiguration(f"the name of the driver, {name!r}: {'; '.join(causes)}")
        if not refresh_seconds > 0:
            raise BadConfiguration(f"refresh_seconds must be more than 0, not {refresh_seconds}")
        self.name = name
        self.refresh_seconds = refresh_seconds
        """How often inventory and health are read."""
        self.namespace = namespace or name.replace(".", "-")
        self.classic = ClassicFunctions(name, params, class_params, handle, structured)
        """The additional functions of a driver of classic DRA."""
        self._handlers: dict[str, AuthorFunction] = {}

    def inventory(self, function: F) -> F:
        """Decorate ``(node) -> [Device(...), …]``, or a dict of such lists by pool."""
        return self._add("inventory", function, "node")

    def prepare(self, function: F) -> F:
        """Decorate ``(claim, devices) -> Cdi()``, which makes the devices of a claim ready."""
        return self._add("prepare", function, "claim", "devices")

    def unprepare(self, function: F) -> F:
        """Decorate ``(claim, devices)``, which undoes ``prepare``; it may be called twice."""
        return self._add("unprepare", function, "claim", "devices")

    def health(self, function: F) -> F:
        """Decorate ``() -> {device name: reason or Unhealthy}`` of the devices to be tainted."""
        return self._add("health", function)

    def fits(self, function: F) -> F:
        """Decorate ``(free, request, class_params) -> Choice | None``, which allocates claims.

        It is called often, in the event loop: it must neither wait nor have side effects.
        """
        return self.classic.add("fits", function)

    def allocate(self, function: F) -> F:
        """Decorate ``(request, choice, class_params, claim) -> data``, which may be slow.

        If called again for the uid of a claim, it must return the same. It is called for several
        claims at a time. ``Unsuitable`` means that nothing is allocated.
        """
        return self.classic.add("allocate", function)

    def allocate_on_node(self, function: F) -> F:
        """Decorate ``(request, choice, class_params, uid) -> data``, called on the chosen node.

        ``Unsuitable`` withdraws the choice. It may be called again for a claim.
        """
        return self.classic.add("allocate_on_node", function)

    def release(self, function: F) -> F:
        """Decorate ``(handle)``, which undoes ``allocate``; it may be called twice.

        ``handle.data`` is what ``allocate`` returned.
        """
        return self.classic.add("release", function)

    def quota(self, function: F) -> F:
        """Decorate ``(namespace, usage, request, class_params) -> reason of a refusal | None``."""
        return self.classic.add("quota", function)

    def network_inventory(self, function: F) -> F:
        """Decorate ``() -> [Device(...), …]`` of devices that every node can use."""
        return self.classic.add("network_inventory", function)

    def new_node(self, function: F) -> F:
        """Decorate ``(node) -> [Device(...), …]``, for a node that an autoscaler may add.

        The node does not exist yet: decide by its labels.
        """
        return self.classic.add("new_node", function)

    def handlers(self, factory: F) -> F:
        """Decorate ``(client, clock) -> ClassicHandlers``, for authors who need no ``fits``."""
        return self.classic.add("handlers", factory)

    def check(self) -> None:
        """Raise BadConfiguration if a function that every driver needs is missing."""
        self.classic.check("inventory" in self._handlers)
        if self.classic.structured and (not self.classic or self.classic.needs_no_inventory):
            raise BadConfiguration(
                f"driver {self.name} has structured=, which divides the devices of "
                "@driver.inventory from those of @driver.fits: it needs both"
            )
        needed = ("prepare",) if self.classic.needs_no_inventory else ("inventory", "prepare")
        for name in needed:
            if name not in self._handlers:
                raise BadConfiguration(f"driver {self.name} has no function for @driver.{name}")

    def run(self, arguments: Sequence[str] | None = None) -> None:
        """Run the driver, or a part of it, until SIGTERM; flags are those of the command line."""
        from holdfast.node.driverkit.command import run_driver  # noqa: PLC0415 - imports grpc

        run_driver(self, arguments)

    def crds(self) -> list[dict[str, Any]]:
        """Return the CRDs of the parameters: those of claims have namespaces, of classes not."""
        return self.classic.crds()

    async def pools(self, node: str) -> dict[str, list[Item]]:
        """Return the inventory, with a taint on each device that is not healthy."""
        if "inventory" not in self._handlers:
            return {node: []}
        pools = pools_of(await self._handlers["inventory"](node), node)
        if "health" not in self._handlers:
            return pools
        unhealthy = _unhealthy_of(await self._handlers["health"]())
        return {
            name: [self._tainted(item, unhealthy) for item in items]
            for name, items in pools.items()
        }

    async def call_prepare(self, claim: Claim) -> Prepared:
        """Call the author's ``prepare``."""
        prepared: Prepared = await self._handlers["prepare"](claim, claim.devices)
        return prepared

    async def call_unprepare(self, claim: Claim) -> None:
        """Call the author's ``unprepare``, if there is one."""
        if "unprepare" in self._handlers:
            await self._handlers["unprepare"](claim, claim.devices)

    def _add(self, name: str, function: F, *offered: str) -> F:
        if name in self._handlers:
            raise BadConfiguration(f"driver {self.name} has two functions for @driver.{name}")
        self._handlers[name] = AuthorFunction(function, name, *offered)
        return function

    def _tainted(self, item: Item, unhealthy: Mapping[str, Unhealthy]) -> Item:
        if not isinstance(item, Device) or item.name not in unhealthy:
            return item
        taint = Taint(f"{self.name}/unhealthy", effect=unhealthy[item.name].effect)
        return replace(item, taints=(*item.taints, taint))


def _unhealthy_of(reasons: Any) -> dict[str, Unhealthy]:
    if not isinstance(reasons, Mapping):
        raise InvalidInventory(f"health must return a dict of reasons by device, not {reasons!r}")
    return {
        name: reason if isinstance(reason, Unhealthy) else Unhealthy(str(reason))
        for name, reason in reasons.items()
        if reason
    }
