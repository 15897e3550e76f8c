"""The store equals a dict, after any writes, deletions, compactions and restarts.

And its history equals everything that ever happened: a watch from any retained revision,
applied to the list at that revision, gives the present state.
"""

import asyncio
import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime import errors
from holdfast.server.store import EventType, IndexEntry, ObjectKey, Retention, Store
from holdfast.testing import VirtualClock
from soak_size import law

RESOURCES = (("", "pods"), ("apps", "deployments"))
KEYS = [
    ObjectKey(*resource, ns, name) for resource in RESOURCES for ns in ("a", "a-b") for name in "xy"
]
RETENTION = Retention(seconds=60, min_events=3, max_events=12, max_lag=12)

writes = st.tuples(st.just("write"), st.sampled_from(KEYS), st.sampled_from("pqr"))
deletions = st.tuples(st.just("delete"), st.sampled_from(KEYS))
others = st.tuples(st.sampled_from(["settle", "restart", "compact", "wait", "fill_disk"]))
histories = st.lists(st.one_of(writes, writes, writes, deletions, others), max_size=50)


def index(key, value):
    label = value.partition(b" ")[2].decode()
    return IndexEntry(uid=key.name, labels={"label": label}, owners=(label,))


class StoreAndModel:
    """The store, and a simple model of it: a dict for every revision."""

    def __init__(self, home):
        self.directory = Path(home) / "data"
        self.clock = VirtualClock()
        self.disk_is_full = False
        self.pending = []
        self.past = {0: {}}
        self.open()

    def open(self):
        self.store = Store.open(
            self.directory, self.clock, index=index, retention=RETENTION, fault=self.fault
        )
        self.clock.busy = [lambda: self.store.busy]

    def fault(self, connection):
        if self.disk_is_full:
            raise OSError("no space left on device")

    async def write(self, key, label):
        def build(revision):
            return f"{revision} {label}".encode()

        before = self.store.latest(key)
        done = self.store.update(before, build) if before else self.store.create(key, build)
        self.pending.append(done)

    async def delete(self, key):
        if before := self.store.latest(key):
            self.pending.append(self.store.delete(before, lambda revision: b"%d gone" % revision))

    async def settle(self):
        """Add acknowledged writes to the model; revisions rise in the order of the writes."""
        for stored in await asyncio.gather(*self.pending):
            newest = max(self.past)
            assert stored.revision > newest
            gone = stored.value.endswith(b"gone")
            now = {k: v for k, v in self.past[newest].items() if k != stored.key}
            self.past[stored.revision] = now if gone else now | {stored.key: stored.value}
        self.pending = []

    async def restart(self):
        await self.settle()
        await self.store.close()
        self.open()

    async def compact(self):
        await self.store.compact()

    async def wait(self):
        await self.settle()
        await self.clock.advance(40)

    async def fill_disk(self):
        """Fail some writes by a full disk, which is then freed."""
        await self.settle()
        self.disk_is_full = True
        for key in KEYS[:3]:
            await self.write(key, "lost")
        await self.delete(KEYS[0])
        lost = await asyncio.gather(*self.pending, return_exceptions=True)
        assert all(isinstance(result, errors.Unavailable) for result in lost)
        self.disk_is_full, self.pending = False, []
        await self.clock.advance(2)

    # The checks.

    async def check(self):
        await self.settle()
        now = self.past[max(self.past)]
        assert self.store.revision == max(self.past)
        for group, plural in RESOURCES:
            mine = {k: v for k, v in now.items() if k.plural == plural}
            listed = self.store.list(group, plural)
            assert {s.key: s.value for s in listed} == mine
            assert [s.key.path for s in listed] == sorted(k.path for k in mine)
            self.check_indexes(group, plural, mine)
            for revision, then in self.past.items():
                await self.check_replay(revision, then, group, plural, mine)

    def check_indexes(self, group, plural, mine):
        for label in "pqr":
            want = [k for k, v in mine.items() if v.endswith(label.encode())]
            assert {s.key for s in self.store.list(group, plural, labels={"label": label})} == {
                *want
            }
            owned = {s.key for s in self.store.dependents(label) if s.key.plural == plural}
            assert owned == {*want}
        within = {s.key for s in self.store.list(group, plural, "a")}
        assert within == {k for k in mine if k.namespace == "a"}

    async def check_replay(self, revision, then, group, plural, mine):
        try:
            listed = self.store.list_at(revision, group, plural)
        except errors.Expired:
            assert self.changes_after(revision, plural) > RETENTION.min_events
            return
        state = {s.key: s.value for s in listed}
        assert state == {k: v for k, v in then.items() if k.plural == plural}
        watch = self.store.watch(group, plural, revision)
        while watch.revision < self.store.revision:
            for event in await anext(watch):
                before = state.pop(event.key, None)
                assert before == (event.previous and event.previous.value)
                assert (before is None) == (event.change is EventType.ADDED)
                if event.change is not EventType.DELETED:
                    state[event.key] = event.object.value
        watch.close()
        assert state == mine

    def changes_after(self, revision, plural):
        later = [self.past[r] for r in sorted(self.past) if r >= revision]
        mine = [{k: v for k, v in objects.items() if k.plural == plural} for objects in later]
        return sum(before != after for before, after in pairwise(mine))


async def run(history):
    with tempfile.TemporaryDirectory() as home:
        twin = StoreAndModel(home)
        try:
            for step, *arguments in history:
                await getattr(twin, step)(*arguments)
            await twin.check()
            await twin.restart()
            await twin.check()
        finally:
            await twin.store.close()


@law(60)
@given(histories)
def test_the_store_equals_a_dict_and_its_history_replays(history):
    asyncio.run(run(history))
