"""Where a reserve pod may go at all: its pin, and which policies may stand side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.capacity.offers import Offers
from holdfast.columns.picture import Picture
from holdfast.framework.plugin import Code, Rows, Verdicts

NOT_THE_NODE = "node(s) didn't match the nodeName specified by reservation"
POLICY_CONFLICT = "node(s) reservation allocate policy conflict"


@dataclass(frozen=True, slots=True)
class ReserveState:
    """A reserve pod: the node it is pinned to, and the policy it brings."""

    nodes: Picture
    offers: Offers
    pinned: str
    policy: str

    def verdict(self, row: int) -> str:
        """Why the row will not do, or ""."""
        if self.pinned and self.nodes.names[row] != self.pinned:
            return NOT_THE_NODE
        return POLICY_CONFLICT if row in self.conflicting() else ""

    def verdicts(self, rows: Rows) -> Verdicts:
        """Answer for each row."""
        verdicts = np.zeros(self.nodes.capacity, np.int8)
        if self.pinned:
            verdicts[:] = Code.UNRESOLVABLE
            row = self.nodes.row_of.get(self.pinned)
            if row is not None:
                verdicts[row] = Code.PASS
        verdicts[self.conflicting()] = Code.UNRESOLVABLE
        found: Verdicts = verdicts[rows]
        return found

    def conflicting(self) -> Rows:
        """Rows where exactly one of the new and an existing reservation has the Default policy."""
        return self.offers.rows_with_other_policy(default=self.policy == "")
