"""What plugins are asked with and answer with: codes, states, changes, calls, effects."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from holdfast.columns.pod_info import PodInfo

Rows = NDArray[np.intp]
AnyRows = Rows | slice
"""What a ``sliced`` plugin is asked about: all rows as a slice, or some as an array."""
Verdicts = NDArray[np.int8]
RawScores = NDArray[np.float64]
State = Any


class Code(IntEnum):
    """What became of a pod (at a node, or as a whole), defined by what the queue then does."""

    PASS = 0
    """Go on."""
    UNSCHEDULABLE = 1
    """Wait for a hinted event; preemption may help here."""
    UNRESOLVABLE = 2
    """Wait for a hinted event; preemption cannot help here."""
    PENDING = 3
    """Wait for an event outside; when it comes skip backoff."""
    ERROR = 4
    """The attempt failed, not the pod: retry with error backoff, blame no plugin."""
    SKIP = 5
    """The plugin has nothing to say."""
    WAIT = 6
    """Permit only: assumed, waiting for a word."""

    @property
    def word(self) -> str:
        """The name upstream uses in metrics and explanations."""
        return _WORDS[self]


_WORDS = {
    Code.PASS: "Success", Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNRESOLVABLE: "UnschedulableAndUnresolvable", Code.PENDING: "Pending",
    Code.ERROR: "Error", Code.SKIP: "Skip", Code.WAIT: "Wait",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Skip:
    """The plugin has nothing to say about this pod: its filter and score are off this cycle."""


@dataclass(frozen=True, slots=True)
class Reject:
    """No node will do; the code and the reasons count for every node."""

    code: Code
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Permit only: keep the room, but bind nothing until a word comes, or refuse the pod then."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Narrow:
    """Only these rows can do; every other row is excluded in this plugin's name.

    ``state`` may be a Part.
    """

    state: State
    rows: Rows


@dataclass(frozen=True, slots=True)
class Part:
    """The plugin has something to say, but only about filtering or only about scoring.

    ``mistake`` says what is wrong with what it was to score by: once nodes are to be compared,
    the attempt fails with these words. ``by_row``: for pods that read like this one the answer for
    a row depends on that row alone, although the plugin's scope is DOMAIN; so it is kept.
    """

    state: State
    filters: bool = True
    scores: bool = True
    mistake: str = ""
    by_row: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A hypothesis: pods added to or taken from rows, for one question only.

    Nominated pods, preemption victims and what-if all ask through it. ``added`` and ``removed``
    map a row to the pods concerned. An empty change is ``NONE``.
    """

    added: Mapping[int, Sequence[PodInfo]] = field(default_factory=dict)
    removed: Mapping[int, Sequence[PodInfo]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def touches(self, rows: AnyRows) -> list[tuple[int, int]]:
        """Rows concerned that are among ``rows``: (position in ``rows``, row)."""
        mine = {*self.added, *self.removed}
        if isinstance(rows, slice):
            return [(row - (rows.start or 0), row) for row in mine]
        return [(i, row) for i, row in enumerate(rows.tolist()) if row in mine]

    def freed(self, row: int) -> tuple[dict[int, int], int]:
        """Room that becomes free on a row (negative: taken) per resource id, and pod slots."""
        room: dict[int, int] = {}
        gone, come = self.removed.get(row, ()), self.added.get(row, ())
        for sign, pods in ((1, gone), (-1, come)):
            for pod in pods:
                for resource, amount in pod.request:
                    room[resource] = room.get(resource, 0) + sign * amount
        return room, len(gone) - len(come)


NONE = Change()


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be free on a row, besides a pod slot: amounts by resource id.

    Where a node has nothing of a ``waived`` resource, none is needed. Of the rows in ``apart``
    (None: there are none) it tells nothing.
    """

    amounts: tuple[tuple[int, int], ...]
    waived: frozenset[int] = frozenset()
    apart: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One API write a plugin asks for; the driver answers with the stored object (raw JSON).

    ``verb`` is create, update, patch, delete, get or bind; ``path`` is as ``Resource.path`` builds
    it. The verb sleep writes nothing: ``body`` is how many seconds to wait before going on.
    A failure is thrown into the generator as the HoldfastError it is.
    """

    verb: str
    path: str
    body: Any = None
    content_type: str = "application/json"


Calls = Generator[Call, Any, None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which evicting the victims, most important first, would make room."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int
    """Victims that a disruption budget would have spared."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What ``after_reject`` wants done about a pod that fits nowhere; the scheduler does it."""

    plugin: str
    """Who wants it; several are joined by commas."""
    message: str = ""
    nominate: str | None = None
    """Node to nominate; "" clears the nomination, None keeps it."""
    evict: tuple[PodInfo, ...] = ()
    calls: tuple[Call, ...] = ()
    """Writes to carry out now (deallocate a claim, delete a leftover)."""
    code: Code = Code.UNSCHEDULABLE
    """PASS ends the chain with success; UNRESOLVABLE and ERROR end it too."""
    candidates: Sequence[Candidate] = ()
    """For explanations: every node that was considered good enough, and those equally good.
    Look at them before the world moves on: they may be worked out only then."""
    tied: Sequence[str] = ()
    notes: tuple[tuple[str, str], ...] = ()
    """(reason, message) of warning events to write about the pod."""


@dataclass(slots=True)
class Placement:
    """A decision: this pod on that node, with what each plugin prepared for it.

    Reserving plugins add to ``annotations``; the binder sends them with the Binding, so that the
    pod carries them from the very write that binds it.
    """

    pod: PodInfo
    row: int
    node: str
    states: dict[str, State]
    annotations: dict[str, str] = field(default_factory=dict)
    now: float = 0.0
    """When it was decided, for the time stamps of what is written."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """(reason, message) of events to write once the pod is bound."""
    activate: set[str] = field(default_factory=set)
    """Uids of waiting pods that have a better chance now: they are tried at once."""
    promised: str = ""
    """Node the pod was nominated to until it was placed."""
    recalled: str = ""
    """Why it must not be bound after all, if somebody decided so meanwhile."""
