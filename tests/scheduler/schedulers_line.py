"""A network that is bad for the scheduler alone."""

from holdfast.testing import FaultyTransport


class SchedulersLine:
    """The scheduler's own line to the server; everybody else's works.

    The scheduler is who connects first.
    """

    def __init__(self, *faults):
        self._faults = faults
        self._transport = None

    def wrap(self, inner, clock):
        if self._transport is not None:
            return inner
        self._transport = FaultyTransport(inner, self._faults, clock=clock)
        return self._transport

    def add(self, *faults):
        self._transport.add(*faults)
