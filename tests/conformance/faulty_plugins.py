"""Give a plugin plans with a fault."""

from holdfast.scheduling.framework.plan import PodPlan


def with_plan(plugin, plan):
    """Return a plugin whose plans are of a class that derives from theirs and has no slots."""

    class Faulty(plugin):
        plan_classes = (plan,)

        def pre_filter(self, pod, view):
            found = super().pre_filter(pod, view)
            if isinstance(found, PodPlan):
                object.__setattr__(found, "__class__", plan)
            return found

    return Faulty
