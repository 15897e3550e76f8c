"""Preparations of a scheduling cycle that need a pause at every step."""

from holdfast.scheduling.scheduler.preparation_turns import CyclePreparation
from holdfast.scheduling.scheduler.queued_pods import QueuedPodInfo


class ImpatientClock:
    """A clock that has moved by a millisecond whenever it is read."""

    def __init__(self):
        self.reads = 0

    def now(self):
        return 1.8e9

    def monotonic(self):
        self.reads += 1
        return self.reads / 1000


def preparation_of(profile, world, pod_info, clock=None):
    queued = QueuedPodInfo(pod_info, since=0.0)
    return CyclePreparation(profile, queued, world, clock or ImpatientClock())


def prepare_and_count(profile, world, pod_info):
    """Prepare the cycle of a pod; return how many steps that took."""
    preparation = preparation_of(profile, world, pod_info)
    steps = 0
    if not preparation.begin():
        steps = 1
        while not preparation.step():
            steps += 1
    return steps
