"""The three forms of the fit rule agree with each other and with a simple reference."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.state.columns.amounts import NodeAmounts
from holdfast.state.columns.interner import CPU, EPHEMERAL, MEMORY, PODS, ResourceNames
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.request_fit import (
    ENOUGH,
    Need,
    RequestFit,
    remaining_of,
    short_bits,
    short_bits_at,
)
from holdfast.testing import a_pod, typed

GPU, FPGA = 4, 5
"""Resources that no node has at first: their columns are empty until one does."""
RESOURCES = (CPU, MEMORY, EPHEMERAL, PODS, GPU, FPGA)
HUGE = 2**61
SMALL = st.integers(0, 4)
AMOUNT = st.one_of(SMALL, SMALL, st.sampled_from([HUGE - 1, HUGE, HUGE + 1, 2**62]))
REQUEST = st.dictionaries(st.sampled_from([CPU, MEMORY, EPHEMERAL, GPU, FPGA]), AMOUNT)
BACKED = st.frozensets(st.sampled_from([EPHEMERAL, GPU, FPGA]))
ROW = st.fixed_dictionaries({r: st.tuples(AMOUNT, SMALL) for r in RESOURCES})
ROWS = st.lists(ROW, min_size=1, max_size=6)
"""What a row has of each resource, and what is taken of it; it may be overdrawn."""
CHANGE = st.fixed_dictionaries({r: st.integers(-5, 5) for r in RESOURCES})


def counted(rows):
    amounts = NodeAmounts(len(RESOURCES), len(rows) + 2)
    for row, cells in enumerate(rows):
        amounts.add_row(row)
        amounts.set_allocatable(row, {r: has for r, (has, _) in cells.items()})
        taken = [(r, used) for r, (_, used) in cells.items() if r != PODS]
        amounts.add_request(row, taken, cells[PODS][1], 0, 0)
    return amounts


def obvious(cells, request, device_backed):
    """Return what a row would have left of the slot and each resource, None if not counted."""
    left = []
    for resource, wanted in ((PODS, 1), *request):
        has, used = cells[resource]
        left.append(None if resource in device_backed and has == 0 else has - used - wanted)
    return left


EMPTY = dict.fromkeys(RESOURCES, (0, 0))
EXACTLY = {**EMPTY, PODS: (1, 0), CPU: (3, 1)}


@given(ROWS, REQUEST, BACKED)
@example([EXACTLY], {CPU: 2, GPU: 1}, frozenset({GPU}))
@example([EXACTLY, EMPTY], {CPU: 2**62, GPU: 0}, frozenset())
def test_arrays_one_row_and_explanation_agree(rows, request, device_backed):
    wanted = tuple(sorted(request.items()))
    fit = RequestFit.of(counted(rows), wanted, device_backed)
    every, some = slice(0, len(rows)), np.arange(len(rows))[::-2]
    assert fit.fits(some).tolist() == fit.fits(every)[some].tolist()
    assert fit.fits_if_empty(some).tolist() == fit.fits_if_empty(every)[some].tolist()
    spare = np.array(fit.remaining(every))
    assert np.array(fit.remaining(some)).tolist() == spare[:, some].tolist()
    bits = short_bits(fit.remaining(every))
    for row, cells in enumerate(rows):
        left = obvious(cells, wanted, device_backed)
        short = [i for i, amount in enumerate(left) if amount is not None and amount < 0]
        assert spare[:, row].tolist() == [ENOUGH if a is None else a for a in left]
        assert fit.remaining_at(row) == spare[:, row].tolist()
        assert bool(fit.fits(every)[row]) is fit.fits_at(row) is (not short)
        assert bits[row] == short_bits_at(fit.remaining_at(row)) == sum(1 << i for i in short)
        assert [s.resource for s in fit.shortages(row)] == [fit.needs[i].resource for i in short]
        # What is short even of an empty row cannot be helped, but for pod slots.
        empty = obvious({r: (has, 0) for r, (has, _) in cells.items()}, wanted, device_backed)[1:]
        never = any(amount is not None and amount < 0 for amount in empty)
        assert fit.fits_if_empty(every)[row] == (not never)
        assert any(s.unresolvable for s in fit.shortages(row)) is never


@given(ROWS, REQUEST, BACKED, CHANGE)
def test_gained_amounts_are_added_to_what_is_free(rows, request, device_backed, change):
    wanted = tuple(sorted(request.items()))
    amounts = counted(rows)
    fit = RequestFit.of(amounts, wanted, device_backed)
    gained = [change[need.resource] for need in fit.needs]
    every = slice(0, len(rows))
    shortages = [fit.shortages(row, gained) for row in range(len(rows))]
    spare = [left + more for left, more in zip(fit.remaining(every), gained, strict=True)]
    for row in range(len(rows)):
        others = [(r, amount) for r, amount in change.items() if r != PODS]
        amounts.remove_request(row, others, change[PODS], 0, 0)
    assert [fit.shortages(row) for row in range(len(rows))] == shortages
    assert short_bits(spare).tolist() == short_bits(fit.remaining(every)).tolist()
    assert fit.fits(every).tolist() == [not short for short in shortages]


@given(ROWS, REQUEST)
def test_a_shortage_says_what_was_requested_used_and_available(rows, request):
    fit = RequestFit.of(counted(rows), tuple(sorted(request.items())), frozenset())
    for row, cells in enumerate(rows):
        for short in fit.shortages(row):
            wanted = 1 if short.resource == PODS else request[short.resource]
            assert short[1:4] == (wanted, cells[short.resource][1], cells[short.resource][0])
            assert short.unresolvable is (short.resource != PODS and wanted > short.capacity)


def test_needs_beyond_the_last_bit_share_it():
    columns = np.array([[-1, 0], [0, -1], [0, -2]])
    assert short_bits(columns, 1).tolist() == [1, 2]
    assert short_bits_at([0, -1, -1], 1) == 2
    assert short_bits_at([0] * 70 + [-1]) == short_bits(np.array([[0]] * 70 + [[-1]])) == 2**62


def test_a_need_can_use_any_columns():
    """For example free whole cores, as cpu sets and devices will need."""
    amounts = NodeAmounts(4, 2)
    amounts.set_allocatable(0, {PODS: 9, CPU: 8})
    plain = RequestFit.of(amounts, ((CPU, 2),), frozenset())
    free, has = np.array([1, 0]), np.array([4, 0])
    cores = Need(99, 2, free, has, memoryview(free), memoryview(has))
    fit = RequestFit([*plain.needs, cores])
    assert plain.fits_at(0) and not fit.fits_at(0) and not fit.fits(slice(0, 1))[0]
    assert [tuple(s) for s in fit.shortages(0)] == [(99, 2, 3, 4, False)]
    assert remaining_of(1, 2, 4, device_backed=False) == fit.remaining_at(0)[2]


def test_pods_need_a_slot_each_and_their_requests():
    fit = RequestFit.of(counted([EMPTY]), ((CPU, 2), (GPU, 1)), frozenset())
    names = ResourceNames()
    pods = [PodInfo.of(typed(a_pod(f"p{i}", cpu="3m", memory="1")), names) for i in range(2)]
    assert fit.requests_of(pods) == [2, 6, 0]
    assert fit.requests_of([]) == [0, 0, 0]
