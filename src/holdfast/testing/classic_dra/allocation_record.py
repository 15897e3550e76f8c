"""Record what the allocating functions of a classic driver return and what ``release`` gets."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from holdfast.api.classic_dra.types import ClassicAllocation, ClassicClaim
from holdfast.node.driverkit.classic_dra.fitting import Unsuitable
from holdfast.node.driverkit.classic_dra.handle import Handle
from holdfast.node.driverkit.classic_dra.handlers import Allocated, ClaimItem, ClassicHandlers
from holdfast.runtime.errors import Retryable

Call = Callable[[str, str, Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]
"""Calls a function of the author, given its name, the uid of the claim and the call."""


class AllocationRecord:
    """Wraps the functions of a driver; each is called through ``call``."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.results: defaultdict[str, list[Any]] = defaultdict(list)
        """The results for each claim, by uid, as JSON values, oldest first."""
        self.released: defaultdict[str, list[Handle | None]] = defaultdict(list)
        """The arguments of ``release``, by uid; None for ``deallocate`` of the author's own
        handlers."""
        self.failure = asyncio.Event()
        """Set when a function raised an exception other than ``Retry``."""
        self.failures: list[str] = []

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function to call instead of one of the author's functions."""
        match name:
            case "allocate":
                return lambda *given: self._allocated(name, given[3].uid, function, given)
            case "allocate_on_node":
                return lambda *given: self._allocated(name, given[3], function, given)
            case "release":
                return lambda handle: self._released(name, handle.uid, handle, function, handle)
            case "handlers":
                return lambda *given: _RecordedHandlers(self, function(*given))
        return function

    async def _allocated(
        self, name: str, uid: str, function: Callable[..., Any], given: Sequence[Any]
    ) -> Any:
        async def call() -> Any:
            result = await self._failing(name, function, given)
            self.results[uid].append(msgspec.to_builtins(result, enc_hook=repr))
            return result

        return await self._call(name, uid, call())

    async def _released(
        self, name: str, uid: str, handle: Handle | None, function: Callable[..., Any], given: Any
    ) -> None:
        """Record that a claim is released after the call has returned."""
        await self._call(name, uid, self._failing(name, function, (given,)))
        self.released[uid].append(handle)

    async def _failing(self, name: str, function: Callable[..., Any], given: Sequence[Any]) -> Any:
        try:
            return await function(*given)
        except Retryable:
            raise
        except Unsuitable as refusal:
            self._fail(f"{name} refuses a claim ({refusal}), so that nothing can be checked")
            raise
        except Exception as error:
            self._fail(f"{name} raises {type(error).__name__}: {error}")
            raise

    def _fail(self, what: str) -> None:
        self.failures.append(what)
        self.failure.set()


class _RecordedHandlers:
    """The author's own handlers, of which two functions are recorded."""

    def __init__(self, record: AllocationRecord, inner: ClassicHandlers) -> None:
        self._record = record
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def allocate(
        self, items: Sequence[ClaimItem], selected_node: str | None
    ) -> Sequence[Allocated]:
        """Record the handle of each claim."""
        record = self._record

        async def call() -> Sequence[Allocated]:
            given = (items, selected_node)
            allocations: Sequence[Allocated] = await record._failing(
                "allocate", self._inner.allocate, given
            )
            for item, one in zip(items, allocations, strict=True):
                if isinstance(one, ClassicAllocation):
                    record.results[item.claim.uid].append(one.resource_handle)
            return allocations

        allocated: Sequence[Allocated] = await record._call("allocate", items[0].claim.uid, call())
        return allocated

    async def deallocate(self, claim: ClassicClaim) -> None:
        """Record that it was called."""
        await self._record._released("deallocate", claim.uid, None, self._inner.deallocate, claim)
