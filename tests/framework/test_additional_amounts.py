"""Amounts that nodes have besides what they list: from ledgers, in any order of events."""

from random import Random
from types import SimpleNamespace

import msgspec

from holdfast.api.meta import Object, ObjectMeta
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.event_handlers import EventHandlers
from holdfast.testing import a_node, typed
from soak_size import SEED, rounds

GPU = "example.com/gpu"


class Gadget(Object, frozen=True):
    """Gives the node of its name so many devices."""

    count: int = 0


class Gadgets:
    """The ledger of gadgets."""

    takes = (Gadget,)

    def __init__(self):
        self.counts = {}

    def upsert(self, obj):
        self.counts[obj.name] = obj.count

    def delete(self, obj):
        self.counts.pop(obj.name, None)

    def fork(self, nodes):
        raise NotImplementedError

    def additional_amounts(self, node):
        count = self.counts.get(node, 0)
        return {GPU: count, "cpu": 64_000} if count else {}


class GadgetWorld(World):
    """A world with one more ledger."""

    def __init__(self):
        self.gadgets = Gadgets()
        super().__init__()

    @property
    def ledgers(self):
        return (*super().ledgers, self.gadgets)


def devices(name, count):
    return Gadget(metadata=ObjectMeta(name=name), count=count)


def amounts_on(nodes, name):
    found = nodes.allocatable[:, nodes.row_of[name]].tolist()
    return {nodes.resources[r]: amount for r, amount in enumerate(found) if amount}


def test_what_the_node_lists_wins_also_zero():
    world = GadgetWorld()
    world.upsert(devices("a", 2))
    world.upsert(typed(a_node("a", cpu="4")))
    here = amounts_on(world.nodes, "a")
    assert (here["cpu"], here[GPU]) == (4000, 2)
    assert amounts_on(world.nodes.fork(), "a") == here
    world.upsert(typed(a_node("a", cpu="4", allocatable={GPU: "0"})))
    assert GPU not in amounts_on(world.nodes, "a")
    # Deleted and created again, the node has them as before; without the object it has none.
    world.delete(typed(a_node("a")))
    world.upsert(typed(a_node("a", cpu="4")))
    assert amounts_on(world.nodes, "a") == here
    fork = world.nodes.fork()
    world.delete(devices("a", 2))
    assert GPU not in amounts_on(world.nodes, "a")
    assert amounts_on(fork, "a") == here


def test_the_row_is_logged_only_if_an_amount_changed():
    world = GadgetWorld()
    world.upsert(typed(a_node("a")))
    before = world.nodes.seq
    world.upsert(devices("a", 2))
    assert (world.nodes.seq, world.nodes.journal.last_row) == (before + 1, 0)
    world.upsert(devices("a", 2))
    world.upsert(devices("unknown", 1))
    assert world.nodes.seq == before + 1
    world.nodes.set_additional_amounts("a", {GPU: 2**80, "odd": -5})
    assert 0 < amounts_on(world.nodes, "a")[GPU] < 2**60
    assert "odd" not in amounts_on(world.nodes, "a")


def test_events_in_any_order_give_the_same_amounts():
    for seed in range(SEED, SEED + rounds(4)):
        random = Random(seed)
        world, there = GadgetWorld(), {}
        for _ in range(60):
            name = random.choice("abcde")
            listed = random.choice([{}, {GPU: "7"}])
            made = random.choice(
                [typed(a_node(name, allocatable=listed)), devices(name, random.randint(0, 3))]
            )
            if random.random() < 0.3:
                world.delete(made)
                there.pop((type(made), name), None)
            else:
                world.upsert(made)
                there[type(made), name] = made
        full = GadgetWorld()
        for made in random.sample([*there.values()], len(there)):
            full.upsert(made)
        assert {n: amounts_on(world.nodes, n) for n in world.nodes.row_of} == {
            n: amounts_on(full.nodes, n) for n in full.nodes.row_of
        }


def test_the_queue_hears_that_the_node_has_more():
    world, events = GadgetWorld(), []
    queue = SimpleNamespace(
        awaits_events=True, requeue_for_event=lambda event, _now: events.append(event)
    )
    handlers = EventHandlers(world, queue, lambda _name: True, lambda: 0.0)
    handlers.on_node("added", None, typed(a_node("a")))
    handlers.handler_for("Gadget")("added", None, devices("a", 1))
    handlers.handler_for("Gadget")("updated", devices("a", 1), devices("a", 1))
    node = typed(a_node("a"))
    handlers.on_node("updated", node, msgspec.structs.replace(node))
    heard = [(event.resource, event.action) for event in events]
    assert heard == [
        ("Node", "Add"), ("Gadget", "Add"), ("Node", "UpdateNodeAllocatable"), ("Gadget", "Update"),
    ]  # fmt: skip
    more = events[2]
    assert GPU not in more.old.status.allocatable
    assert more.new.status.allocatable[GPU] == "1"
