"""Sums of what pods and reservations hold of a node's devices."""

from random import Random

import pytest

from holdfast.state.device_share.allocations import DeviceUse, SharedDeviceAllocation, use_of
from holdfast.state.device_share.node_holders import DeviceHolder, NodeHolders, sum_of


def a_use(dice, most=3):
    listed = [
        SharedDeviceAllocation(minor, (dice.randrange(50), dice.randrange(9), dice.randrange(50)))
        for minor in sorted(dice.sample(range(4), dice.randint(1, most)))
    ]
    return use_of({"gpu": tuple(listed)})


@pytest.mark.parametrize("seed", range(20))
def test_the_use_without_a_reservation_is_the_sum_of_all_others(seed):
    dice, holders = Random(seed), NodeHolders()
    for step in range(30):
        uid = f"r{dice.randrange(6)}"
        match dice.randrange(4):
            case 0:
                holders.add_pod(f"p{step}", DeviceHolder(a_use(dice), dice.choice(("", uid))))
            case 1:
                holders.remove(dice.choice((uid, *holders.pods)))
            case 2:
                holders = holders.fork()
            case _:
                holders.set_reservation(uid, a_use(dice))
        pods = [holder.use for holder in holders.pods.values()]
        for lent in [(), *((each,) for each in holders.reservations)]:
            kept = [holders.remaining(each) for each in holders.reservations if each not in lent]
            assert holders.used(lent=lent) == sum_of([*pods, *kept])


def test_many_reservations_are_added_up_once(monkeypatch):
    """Each asks for the use without itself: in all, not the square of their number."""
    dice, holders, calls = Random(0), NodeHolders(), []
    for number in range(100):
        holders.set_reservation(f"r{number}", a_use(dice))
    plus = DeviceUse.plus
    monkeypatch.setattr(DeviceUse, "plus", lambda *both: calls.append(1) or plus(*both))
    for uid in holders.reservations:
        holders.used(lent=(uid,))
    assert len(calls) <= 101
