"""The search result of each node, one search for all nodes with equal signatures.

A result contains the chosen devices without their names. So Reserve takes what the search of Filter
has chosen on any node with the signature, and does not search again.

The devices may change while a search pauses. A search works on a copy of what is allocated, and its
result is stored for the signature that it began with, never for the row. Then the row is looked at
again: usually it still has that signature.

The first ERROR ends the search of rows. The pod fails with it in any case, and a claim that timed
out on many different states cost ``filterTimeout`` for each of them. Preemption still needs the
other rows (``all_rows``): an incomplete pool on one node left no candidate on any other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Node
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.allocator import Allocator, DeviceChoice
from holdfast.state.devices.errors import AllocationError, NodeAllocationError, SearchTimeout
from holdfast.state.devices.pools import Pool
from holdfast.state.devices.row_table import NO_ROW, Rows, RowTable
from holdfast.state.devices.signatures import SignatureBuilder

if TYPE_CHECKING:
    from holdfast.state.devices.inventory import Inventory

FITS, DOES_NOT_FIT, INVALID_POOL, ERROR, NOT_SEARCHED = 0, 1, 2, 3, 4
"""Codes of a row; ERROR: ``Allocator.solve`` raises another error than an invalid pool.

NOT_SEARCHED: the search on another row ended with ERROR, so the pod fails whatever this row has.
"""

Codes = NDArray[np.int8]
_WORK_OF_SEARCH = 64
"""A search that takes longer pauses itself."""


@dataclass(frozen=True, slots=True)
class _Result:
    """The result for one signature; ``choices`` are None unless the claims fit."""

    code: int
    score: int = 0
    choices: tuple[DeviceChoice, ...] | None = None
    timed_out: bool = False


_UNKNOWN = _Result(DOES_NOT_FIT)


class SearchResults(RowTable):
    """The search result of each node."""

    def __init__(
        self, inventory: Inventory, nodes: NodeTable, allocator: Allocator, steps: int
    ) -> None:
        super().__init__(inventory, nodes)
        self._allocator = allocator
        self._steps = steps
        self._signatures = SignatureBuilder(allocator)
        self._by_signature: dict[Hashable, _Result] = {}
        self._codes: Codes = np.zeros(0, np.int8)
        self._scores: NDArray[np.float64] = np.zeros(0)
        self._results: NDArray[np.object_] = np.zeros(0, np.object_)

    def codes(self, rows: Rows, first: int = NO_ROW, *, all_rows: bool = False) -> Codes:
        """Return the code of each row; after an ERROR no further row is searched.

        ``first`` is searched before the others: if the pod fits there, errors do not matter. With
        ``all_rows`` each row is searched.
        """
        if self.refresh(rows, first, all_rows=all_rows):
            return self._codes[rows]
        return np.where(self.is_outdated(rows), NOT_SEARCHED, self._codes[rows]).astype(np.int8)

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Return the score of each row that fits."""
        self.refresh(rows)
        return self._scores[rows]

    def choices(self, row: int) -> tuple[DeviceChoice, ...] | None:
        """Return what the search has chosen on a row; None if the claims do not fit there."""
        return self._result(row).choices

    def timed_out(self, row: int) -> bool:
        """Return whether the search on a row reached its limit of steps."""
        return self._result(row).timed_out

    def state_of(self, row: int) -> Hashable:
        """Return what a search on a row depends on: equal for rows with equal results."""
        node, inventory = self._nodes.nodes[row], self._inventory
        assert node is not None, f"row {row} is a node"
        pools = inventory.node_pools.of(node)
        return self._signatures.signature(
            node, pools, inventory.allocated_devices, inventory.node_pools
        )[0]

    def _result(self, row: int) -> _Result:
        self.refresh(np.array([row], np.intp))
        result: _Result = self._results[row]
        return result

    def _resize(self, capacity: int) -> None:
        self._codes = np.full(capacity, DOES_NOT_FIT, np.int8)
        self._scores = np.zeros(capacity)
        self._results = np.full(capacity, _UNKNOWN, np.object_)
        self._failed.clear()

    def _evaluate(self, row: int, node: Node) -> Iterator[None]:
        inventory, allocator = self._inventory, self._allocator
        select = partial(self._select_in_steps, allocator.matcher, allocator.alternatives, row)
        while (current := (yield from select())) is not None:
            pools = inventory.node_pools.of(current)
            yield from self._signatures.build_in_steps(pools)
            if not self._is_current_node(row, current, pools):
                continue
            signature, key = self._signatures.signature(
                current, pools, inventory.allocated_devices, inventory.node_pools
            )
            result = self._by_signature.get(signature)
            if result is not None:
                self._write(row, result)
                self._set_key(row, key)
                return
            # The devices may change in a pause of the search: its result is that of a signature,
            # and the row is looked at again.
            yield from self._search(signature, current, pools)

    def _is_current_node(self, row: int, node: Node, pools: Sequence[Pool]) -> bool:
        """Return whether neither the node of a row nor its pools have changed in a pause."""
        return self._nodes.nodes[row] is node and self._inventory.node_pools.of(node) is pools

    def _copy(self, row: int, rows: Rows) -> None:
        self._write(rows, self._results[row])

    def _write(self, rows: int | Rows, result: _Result) -> None:
        self._codes[rows], self._scores[rows] = result.code, result.score
        self._results[rows] = result
        if result.code == ERROR:
            self._failed.update(np.atleast_1d(rows).tolist())
        elif self._failed:
            self._failed.difference_update(np.atleast_1d(rows).tolist())

    def _search(self, signature: Hashable, node: Node, pools: Sequence[Pool]) -> Iterator[None]:
        devices = {c.id for pool in pools for c in pool.candidates}
        devices.update(
            c.id for pool in pools for some in pool.counters.consumers.values() for c in some
        )
        allocated_devices = self._inventory.allocated_devices.restricted_to(devices)
        self._work += _WORK_OF_SEARCH
        try:
            solution = yield from self._allocator.solve_in_steps(
                node, pools, allocated_devices, self._steps
            )
        except NodeAllocationError:
            result = _Result(INVALID_POOL)
        except AllocationError as failure:
            result = _Result(ERROR, timed_out=isinstance(failure, SearchTimeout))
        else:
            result = _Result(DOES_NOT_FIT)
            if solution is not None:
                result = _Result(FITS, solution.score, self._allocator.choices(solution, pools))
        if len(self._by_signature) > self._capacity:
            self._by_signature.clear()
        self._by_signature[signature] = result
