"""What preemption asks filters, so that it can try all nodes at once with pods taken away.

A filter that says nothing of this sort is asked about every row by itself, once for each pod that
might stay: right, and slow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.framework.traits import Plugin
from holdfast.framework.values import Needs, State

if TYPE_CHECKING:
    from holdfast.columns.pod_info import PodInfo
    from holdfast.framework.rejection import Rejection

Bools = NDArray[np.bool_]
NEVER = -(2**59)
"""In ``Limit.left``: whoever leaves, the row will not do."""
ALWAYS = 2**59
"""In ``Limit.left``: whoever stays, the row will do."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Pods of one sort, of which only so many may stay on a row.

    ``counts`` says how much a pod counts, the same whichever row it stands on. ``left`` tells, per
    row, how much more could come to it as it is; if that is negative, so much has to leave. What
    pods count is remembered by ``key`` while ``version`` stays. ``by_kind``: pods of one kind count
    the same. An ``anchor`` is the reverse, pods the row needs: they count negative, and all that
    matters is whether it would do were everybody gone who might have to go.
    """

    key: Hashable
    left: NDArray[np.int64]
    counts: Callable[[PodInfo], int]
    version: int = 0
    by_kind: bool = False
    anchor: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """All that a filter asks of the pods on a row, unless the row is ``apart`` (None: none is).

    ``crowded_by`` tells whether the limits say too little of rows to which a pod is nominated.
    """

    limits: tuple[Limit, ...]
    apart: Bools | None = None
    crowded_by: Callable[[PodInfo], bool] | None = None


class LimitsPods(Plugin, Protocol):
    """Rule out rows because of the pods there, counted one by one.

    The verdict on a row must be: it passes if no limit is exceeded. Pods that come to a row never
    make it pass, but for those that anchors count.
    """

    def limits(self, state: State) -> Limits:
        """What may stay on each row."""
        ...


class RestsOnPods(Plugin, Protocol):
    """Tell where a verdict has to do with the pods that stand there.

    Preemption tries thousands of rows with pods taken away. Where this says no, it need not ask
    again; a plugin without it is asked about every row. Scope NODE implies that it never has to.
    """

    def rests_on_pods(self, state: State) -> Bools | None:
        """Tell for every row whether some pods' leaving it could change the verdict there.

        None says that it never could.
        """
        ...


class NeedsRoom(Plugin, Protocol):
    """Rule out rows for want of room and nothing else: then all rows can be tried as columns.

    Such a plugin may rest on pods too: where it does, room is needed but may not be enough.
    """

    def needs(self, state: State) -> Needs:
        """What must be free for the row to pass."""
        ...

    def uncounted(self, name: str) -> bool:
        """Tell whether it leaves a resource for something outside the scheduler to count."""
        ...


class RulesEviction(Plugin, Protocol):
    """Have a say in whether others are evicted for a pod, and who never is."""

    def forbids_eviction(self, rejection: Rejection) -> str | None:
        """Tell why nobody may be evicted for the rejected pod, "" without words; None: allowed."""
        ...

    def spares(self, pod: PodInfo) -> Callable[[PodInfo], bool] | None:
        """Tell who is never evicted for a pod; None if that can be anybody."""
        ...
