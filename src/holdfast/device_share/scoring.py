"""Score devices and nodes by how much of them is used: LeastAllocated or MostAllocated."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api.koordinator_names import FPGA, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA
from holdfast.device_share.requests import RESOURCES, Amounts
from holdfast.numa.policies import LEAST_ALLOCATED

_MAX_SCORE = 100


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """A strategy and the weights of the resources that count."""

    type: str = LEAST_ALLOCATED
    weights: tuple[tuple[str, int], ...] = (
        (GPU_MEMORY_RATIO, 1),
        (GPU_MEMORY, 1),
        (RDMA, 1),
        (FPGA, 1),
    )

    def score(self, kind: str, request: Amounts, total: Amounts, free: Amounts) -> int:
        """Return 0 to 100 for one device, or for a node by its sums, with the request added.

        >>> ScoringStrategy().score("rdma", (50,), (100,), (100,))
        50
        """
        names, score, weights = RESOURCES[kind], 0, 0
        least = self.type == LEAST_ALLOCATED
        for name, weight in self.weights:
            if name not in names or not total[place := names.index(name)]:
                continue
            capacity = total[place]
            used = min(capacity - free[place] + request[place], capacity)
            score += weight * ((capacity - used if least else used) * _MAX_SCORE // capacity)
            weights += weight
        return score // weights if weights else 0
