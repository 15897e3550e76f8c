"""An event handler that records its calls and checks that they are consistent."""


class RecordingHandler:
    """The calls of a handler as (type, name), and the cache that they reproduce."""

    def __init__(self):
        self.events = []
        self.replayed = {}

    def __call__(self, kind, old, new):
        obj = new if new is not None else old
        self.events.append((kind, obj.name))
        before = self.replayed.get(obj.key)
        match kind:
            case "added":
                assert before is None and old is None
                self.replayed[obj.key] = new
            case "modified":
                assert before == old and old.uid == new.uid
                assert old.metadata.resource_version != new.metadata.resource_version
                self.replayed[obj.key] = new
            case "deleted":
                assert before == old and new is None
                del self.replayed[obj.key]

    def take(self):
        taken, self.events = self.events, []
        return taken
