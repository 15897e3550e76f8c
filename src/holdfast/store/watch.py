"""The history of each resource and those who follow it (signatures; the body follows)."""

from __future__ import annotations

from holdfast.store.records import Event


class Subscription:
    """Follow one resource: ``async for batch in subscription`` yields lists of events.

    Events come in revision order, first what is retained after ``from_revision``, then
    live. The iteration ends when somebody calls ``close``, when the store closes, or when
    the reader fell too far behind: then ``overrun`` is True, and a new watch from
    ``revision`` goes on without a gap (or is told Expired).
    """

    overrun: bool

    @property
    def revision(self) -> int:
        """Tell up to where everything was handed out; what a bookmark may say."""
        raise NotImplementedError

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> list[Event]:
        """Wait for the next events, at most a few hundred at once."""
        raise NotImplementedError

    def close(self) -> None:
        """End the iteration; calling it again does nothing."""
        raise NotImplementedError
