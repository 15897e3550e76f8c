"""Permit plugins that let pods wait and record calls."""

from holdfast.scheduling.framework.plugin import Plugin, Reserver, Wait


class RecordCalls(Reserver):
    """Records calls with a name, or that of the pod; ``refusal`` is returned by ``reserve``."""

    def __init__(self, calls, name="", refusal=None):
        self.calls, self.name, self.refusal = calls, name, refusal

    def reserve(self, placement):
        self.calls.append(f"reserve {self.name or placement.pod.name}")
        return self.refusal

    def unreserve(self, placement):
        self.calls.append(f"unreserve {self.name or placement.pod.name}")


class WaitPlugin(Plugin):
    """A Permit plugin that lets pods wait as long as an annotation says, and records calls."""

    plan_classes = (RecordCalls,)

    def __init__(self, name="Wait"):
        self.name = name
        self.calls = []
        self.plan = RecordCalls(self.calls)
        self.answer = None
        """Returned instead of a wait, if set."""
        self.waiting = None
        self.activates = ()
        """Uids of the pods to activate when another pod is assumed."""

    def pre_filter(self, pod, view):
        return self.plan

    def permit(self, placement, waiting):
        self.waiting = waiting
        placement.pods_to_activate.update(self.activates)
        if self.answer is not None:
            return self.answer
        seconds = placement.pod.pod.metadata.annotations.get(self.name)
        return None if seconds is None else Wait(float(seconds))

    def pod(self, name):
        return next(pod for pod in self.waiting if pod.placement.pod.name == name)
