"""A world with a reservation, and pods that use it."""

from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.framework.world import World
from holdfast.testing import a_node, a_pod, a_reservation, typed

ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
DRAWS = "scheduling.holdfast.dev/reservation-draws"
INNER = "node.koordinator.sh/reservation"


def held(name="r", node="n", phase="Available", reserved=None, inner=None, **spec):
    notes = {INNER: f'{{"resources":{{"cpu":"{inner}"}}}}'} if inner else None
    status = {"phase": phase, "nodeName": node, "allocatable": reserved or {"cpu": "4"}}
    return typed(a_reservation(name, annotations=notes, status=status, **spec))


def drawing(name, *reservations, cpu="1", node="n", draws=None):
    notes = {ALLOCATED: f'{{"name":"{reservations[0].name}","uid":"{reservations[0].uid}"}}'}
    if draws:
        parts = [
            f'{{"name":"{r.name}","uid":"{r.uid}","resources":{{"cpu":"{amount}"}}}}'
            for r, amount in zip(reservations, draws, strict=True)
        ]
        notes[DRAWS] = f"[{','.join(parts)}]"
    return typed(a_pod(name, cpu=cpu, node=node, labels={"app": "r"}, annotations=notes))


def a_world(*objects, **also):
    world = World()
    for obj in (typed(a_node("n", cpu="16", allocatable=also)), *objects):
        world.upsert(obj)
    check_invariants(world)
    return world
