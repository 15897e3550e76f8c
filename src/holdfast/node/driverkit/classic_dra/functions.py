"""The author's functions that make a driver one of classic DRA."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.api.node import Node
from holdfast.api.quantity import Quantity
from holdfast.node.driverkit.author_functions import AuthorFunction, F, plain
from holdfast.node.driverkit.classic_dra.fitting import Fits, FreeDevice
from holdfast.node.driverkit.classic_dra.inventory_conversion import expected_devices
from holdfast.node.driverkit.classic_dra.parameters import crd_of
from holdfast.node.driverkit.inventory import Device, Item, pools_of
from holdfast.runtime.errors import BadConfiguration

if TYPE_CHECKING:
    from holdfast.node.driverkit.classic_dra.parts import ClassicParts
    from holdfast.node.driverkit.driver import Driver

_OFFERED = {
    "fits": ("free", "request", "class_params"),
    "allocate": ("request", "choice", "class_params", "claim"),
    "allocate_on_node": ("request", "choice", "class_params", "uid"),
    "release": ("handle",),
    "quota": ("namespace", "usage", "request", "class_params"),
    "network_inventory": (),
    "new_node": ("node",),
    "handlers": ("client", "clock"),
}
_PLAIN = ("fits", "quota", "handlers", "new_node")
AsyncFunction = Callable[..., Awaitable[Any]]


class ClassicFunctions:
    """Decorated functions and the types of parameters and handles."""

    def __init__(
        self,
        driver: str,
        params: Any,
        class_params: Any,
        handle: Any,
        structured: Callable[[Device], bool] | None,
    ) -> None:
        self._driver = driver
        self.structured = structured
        """Tells whether the scheduler allocates a device, from a slice; None: it allocates none."""
        self.params = params
        self.class_params = class_params
        self.handle = handle
        self._functions: dict[str, Callable[..., Any]] = {}

    def __bool__(self) -> bool:
        """Return whether the driver is one of classic DRA."""
        return "fits" in self._functions or "handlers" in self._functions

    @property
    def needs_no_inventory(self) -> bool:
        """Whether the driver's devices do not belong to nodes, or are unknown to the kit."""
        return "network_inventory" in self._functions or "handlers" in self._functions

    @property
    def has_network_inventory(self) -> bool:
        """Whether every node can use the devices."""
        return "network_inventory" in self._functions

    @property
    def has_allocate(self) -> bool:
        """Whether a function in the controller allocates."""
        return "allocate" in self._functions

    @property
    def has_release(self) -> bool:
        """Whether a function undoes it."""
        return "release" in self._functions

    @property
    def factory(self) -> Callable[..., Any] | None:
        """The author's own handlers, instead of ``fits``."""
        return self._functions.get("handlers")

    def add(self, name: str, function: F) -> F:
        """Add a function; raises BadConfiguration."""
        if name in self._functions:
            raise BadConfiguration(f"driver {self._driver} has two functions for @driver.{name}")
        offered = _OFFERED[name]
        make = plain if name in _PLAIN else AuthorFunction
        self._functions[name] = make(function, name, *offered)
        return function

    def wrapped(
        self, wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]
    ) -> ClassicFunctions:
        """Return a copy with wrapped functions: ``wrap`` gets the name and the function of each."""
        copy = ClassicFunctions(
            self._driver, self.params, self.class_params, self.handle, self.structured
        )
        copy._functions = {name: wrap(name, each) for name, each in self._functions.items()}
        return copy

    def check(self, has_inventory: bool) -> None:
        """Raise BadConfiguration for functions that cannot be combined."""
        given = self._functions
        if given and not self:
            names = ", ".join(f"@driver.{name}" for name in given)
            raise BadConfiguration(f"driver {self._driver} has {names} but no @driver.fits")
        if "handlers" in given and len(given) > 1:
            raise BadConfiguration(
                f"driver {self._driver} has @driver.handlers, which replaces all others"
            )
        if "allocate_on_node" in given and ("allocate" in given or "network_inventory" in given):
            raise BadConfiguration(
                f"driver {self._driver} has @driver.allocate_on_node, so its nodes allocate: it "
                "can have neither @driver.allocate nor @driver.network_inventory"
            )
        if "network_inventory" in given and has_inventory:
            raise BadConfiguration(
                f"driver {self._driver} has devices of nodes and of the network: divide it into two"
            )

    def parts(self, driver: Driver) -> ClassicParts:
        """Return what a process of the driver runs for classic DRA."""
        from holdfast.node.driverkit.classic_dra.parts import (  # noqa: PLC0415 - imports grpc
            ClassicParts,
        )

        return ClassicParts(driver)

    def crds(self) -> list[dict[str, Any]]:
        """Return the CRDs of the parameters: those of claims have namespaces, of classes not."""
        types = ((self.params, True), (self.class_params, False))
        return [crd_of(kind, self._driver, namespaced=named) for kind, named in types if kind]

    @property
    def allocate_on_node(self) -> Callable[..., Any] | None:
        """The function of a driver whose node part allocates and may refuse."""
        return self._functions.get("allocate_on_node")

    def fit_functions(self) -> FitFunctions:
        """Return the functions from which handlers are derived."""
        given = self._functions
        return FitFunctions(
            fits=given["fits"],
            allocate=given.get("allocate"),
            release=given.get("release"),
            quota=given.get("quota"),
            parameters=self.params,
            class_parameters=self.class_params,
            handle=self.handle,
            network=self.has_network_inventory,
            on_node=self.allocate_on_node is not None,
        )

    async def network_devices(self) -> list[Item]:
        """Return the devices of the network."""
        return pools_of(await self._functions["network_inventory"](), "")[""]

    def devices_of_new_node(self, node: Node) -> list[FreeDevice] | None:
        """Return the devices of a node that an autoscaler may add, None if they are unknown."""
        if "new_node" not in self._functions:
            return None
        items: Iterable[Item] = self._functions["new_node"](node) or ()
        structured = self.structured
        if structured is not None:
            items = [one for one in items if isinstance(one, Device) and not structured(one)]
        return expected_devices(items)


@dataclass(slots=True)
class NamespaceUsage:
    """The usage of a driver's devices by the claims of a namespace."""

    claims: int = 0
    devices: int = 0
    capacity: dict[str, Quantity] = field(default_factory=dict)
    """Sums of shares; a device taken whole counts in ``devices`` only."""


@dataclass(frozen=True, slots=True)
class FitFunctions:
    """The author's functions and types; those that are missing are None."""

    fits: Fits
    allocate: AsyncFunction | None = None
    """``(request, choice, class parameters, claim) -> data of the handle``."""
    release: AsyncFunction | None = None
    """``(handle)``."""
    quota: Callable[[str, NamespaceUsage, Any, Any], str | None] | None = None
    """``(namespace, usage, request, class parameters) -> reason of a refusal, or None``."""
    parameters: Any = None
    class_parameters: Any = None
    handle: Any = None
    """The types of the parameters and of the handle's data."""
    network: bool = False
    """Whether every node can use the devices."""
    on_node: bool = False
    """Whether the driver's node part allocates and may refuse."""

    @property
    def do_allocate(self) -> bool:
        """Whether a function of the author allocates; else a stored booking is the allocation."""
        return self.on_node or self.allocate is not None
