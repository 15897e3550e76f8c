"""Rules of a scheduling queue for tests."""

from holdfast.scheduling.scheduler.queued_pods import QueueingRules


def rules(others=None, **functions):
    """Return rules in which these functions replace those of ``others``."""

    class Rules(QueueingRules):
        def __getattribute__(self, name):
            if name in functions:
                return functions[name]
            return getattr(others or QueueingRules(), name)

    return Rules()
