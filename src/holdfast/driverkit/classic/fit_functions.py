"""What the author of a driver with ``fits`` gives the kit: functions, and the types of values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.api.quantity import Quantity
from holdfast.driverkit.classic.fitting import Fits

Call = Callable[..., Awaitable[Any]]


@dataclass(slots=True)
class Usage:
    """What the claims of a namespace have of a driver's devices."""

    claims: int = 0
    devices: int = 0
    capacity: dict[str, Quantity] = field(default_factory=dict)
    """Sums of shares; a device taken whole counts in ``devices`` only."""


@dataclass(frozen=True, slots=True)
class FitFunctions:
    """The author's functions and types; those that are missing are None."""

    fits: Fits
    allocate: Call | None = None
    """``(request, choice, class parameters, claim) -> data of the handle``."""
    release: Call | None = None
    """``(handle)``."""
    quota: Callable[[str, Usage, Any, Any], str | None] | None = None
    """``(namespace, usage, request, class parameters) -> reason of a refusal, or None``."""
    parameters: Any = None
    class_parameters: Any = None
    handle: Any = None
    """Types of the parameters and of the handle's data."""
    network: bool = False
    """Whether every node can use the devices."""
    on_node: bool = False
    """Whether the driver's node part allocates and may refuse."""

    @property
    def do_allocate(self) -> bool:
        """Whether a function of the author allocates; else a stored booking is the allocation."""
        return self.on_node or self.allocate is not None
