"""Network faults that affect the scheduler only."""

from holdfast.testing import FaultyTransport


class SchedulerNetwork:
    """Adds faults to the scheduler's transport, which is the first one to be wrapped."""

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
