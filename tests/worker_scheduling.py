"""Which worker of pytest-xdist runs which test."""

from xdist.scheduler import LoadGroupScheduling


class Scheduling(LoadGroupScheduling):
    """Hands out groups of tests as ``--dist loadgroup`` does, from both ends of the list.

    Every other worker starts at the long tests, which are first and mostly wait. The others start
    at the last tests, which compute: the cores are used from the start.
    """

    def __init__(self, config, log=None):
        super().__init__(config, log)
        self._indexes = {}

    def schedule(self):
        """Hand out the first tests, as soon as all workers have collected them."""
        if not self._indexes:
            collected = next(iter(self.registered_collections.values()))
            self._indexes = {nodeid: index for index, nodeid in enumerate(collected)}
        super().schedule()

    def _assign_work_unit(self, node):
        """Send a worker its next group; xdist searches the list of all tests for each test."""
        name, group = self.workqueue.popitem(last=not _starts_at_long_tests(node))
        self.assigned_work.setdefault(node, {})[name] = group
        node.send_runtest_some([self._indexes[test] for test, done in group.items() if not done])

    def mark_test_complete(self, node, item_index, duration=0):
        """Forget the group of a test if all its tests are done.

        At each test's end xdist counts the tests that a worker has left among all it ever had:
        after 7,000 tests that takes longer than many a test.
        """
        nodeid = self.registered_collections[node][item_index]
        groups, name = self.assigned_work[node], self._split_scope(nodeid)
        groups[name][nodeid] = True
        if all(groups[name].values()):
            del groups[name]
        self._reschedule(node)


def _starts_at_long_tests(node):
    """Return whether this is a worker with an even number: gw0, gw2 and so on."""
    return int(node.gateway.id.removeprefix("gw")) % 2 == 0
