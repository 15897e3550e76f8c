"""The shared informers of a component, like client-go's shared informer factory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar, cast

from holdfast.api.resource import Resource
from holdfast.client.client import Client, UnreadableObject
from holdfast.client.informer import Informer
from holdfast.runtime.clock import Clock

T = TypeVar("T")
NONE: Mapping[Any, Any] = MappingProxyType({})


class InformerSet:
    """The informers of one component; one informer for each collection.

    ``async with informers:`` starts all and waits until all have synced; leaving the block stops
    them. An informer fails only by a defect; ``run`` and ``start`` then raise its exception.

    ``transforms`` and ``on_unreadable`` are passed to the informers of their resources.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        transforms: Mapping[Resource[Any], Callable[[Any], Any]] = NONE,
        on_unreadable: Mapping[Resource[Any], Callable[[UnreadableObject], None]] = NONE,
    ) -> None:
        self._client = client
        self._clock = clock
        self._transforms = transforms
        self._on_unreadable = on_unreadable
        self._informers: dict[tuple[Any, ...], Informer[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def get(
        self, resource: Resource[T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Informer[T]:
        """Return the informer of a collection; a new one runs after the next ``start``."""
        key = (resource, namespace, labels, fields)
        if key not in self._informers:
            self._informers[key] = Informer(
                self._client, resource, clock=self._clock, namespace=namespace, labels=labels,
                fields=fields, transform=self._transforms.get(resource),
                on_unreadable=self._on_unreadable.get(resource),
            )  # fmt: skip
        return cast("Informer[T]", self._informers[key])

    @property
    def has_synced(self) -> bool:
        """Whether all informers have synced."""
        return bool(self._tasks) and all(each.has_synced for each in self._informers.values())

    def error_counts(self) -> dict[tuple[str, str], int]:
        """Count the objects that could not be processed, by collection and category of error."""
        counts: Counter[tuple[str, str]] = Counter()
        for informer in self._informers.values():
            for sort, number in informer.error_counts.items():
                counts[informer.resource.plural, sort] += number
        return dict(counts)

    async def start(self) -> None:
        """Start the informers that are not running and wait until all have synced."""
        started = [(informer, informer.start()) for informer in self._informers.values()]
        self._tasks.update(task for _, task in started)
        for informer, task in started:
            if task.done() or not informer.has_synced:
                await informer.wait_for_sync()

    async def remove(self, informer: Informer[Any]) -> None:
        """Stop one informer for good; ``get`` returns a new one."""
        await informer.stop()
        self._informers = {key: each for key, each in self._informers.items() if each != informer}

    async def run(self) -> None:
        """Start all informers and wait until ``stop``."""
        try:
            await self.start()
            await self.wait_until_stopped()
        finally:
            await self.stop()

    async def wait_until_stopped(self) -> None:
        """Wait until all informers have stopped; raises at once if one fails."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise the exception of an informer that has failed, if there is one."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def stop(self) -> None:
        """Stop all informers and wait for them."""
        for informer in self._informers.values():
            await informer.stop()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
