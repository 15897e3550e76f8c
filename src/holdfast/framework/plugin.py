"""The plugin contract: each extension point is a small protocol, implement only those you need.

A plugin sees all nodes at once: it is asked about an array of rows and answers with an array.
It never does I/O. What must be written to the API server is *yielded* as a ``Call`` from
``pre_bind``, ``bind`` or ``undo_bind`` and the answer is sent back into the generator; whoever
drives it (the scheduler, a test, a what-if) decides what a call means.

One pod's way through a plugin::

    prepare ─┬─ Skip ───────── this plugin has nothing to say about this pod
             ├─ Reject ─────── no node will do
             └─ state
                  filter ───── which rows pass (0), fail but preemption may help (1), fail (2)
                  score, normalize, tier
                  reserve ──── enter the promise in the ledgers   ⇄ unreserve
                  pre_bind ─── write claims, annotations          ⇄ undo_bind
                  bind
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from holdfast.columns.pod_facts import PodFacts
    from holdfast.framework.view import View

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


class Scope(Enum):
    """What a plugin's answer for a row depends on, and so what may be remembered."""

    NODE = "node"
    """The node itself (labels, taints, flags): pods that come and go change nothing."""
    ROW = "row"
    """That row alone: kept per ``reads(pod)``, patched for changed rows only."""
    DOMAIN = "domain"
    """Counters over topology domains, which the plugin keeps incrementally: the state is kept
    per ``reads(pod)``, filter and score are asked every time."""
    CLUSTER = "cluster"
    """Anything: asked every time, from ``prepare`` on."""

    @property
    def kept(self) -> bool:
        """Whether verdicts and raw scores are remembered between pods."""
        return self in (Scope.NODE, Scope.ROW)


@dataclass(frozen=True, slots=True)
class Skip:
    """The plugin has nothing to say about this pod: its filter and score are off this cycle."""


@dataclass(frozen=True, slots=True)
class Reject:
    """No node will do; the code and the reasons count for every node."""

    code: Code
    reasons: tuple[str, ...]
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class Narrow:
    """Only these rows can do; every other row is excluded in this plugin's name.

    ``state`` may be a Part.
    """

    state: State
    rows: Rows


@dataclass(frozen=True, slots=True)
class Part:
    """The plugin has something to say, but only about filtering or only about scoring."""

    state: State
    filters: bool = True
    scores: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """A hypothesis: pods added to or taken from rows, for one question only.

    Nominated pods, preemption victims and what-if all ask through it. ``added`` and ``removed``
    map a row to the pods concerned. An empty change is ``NONE``.
    """

    added: Mapping[int, Sequence[PodFacts]] = field(default_factory=dict)
    removed: Mapping[int, Sequence[PodFacts]] = field(default_factory=dict)

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
class Call:
    """One API write a plugin asks for; the driver answers with the stored object (raw JSON).

    ``verb`` is create, update, patch, delete or bind; ``path`` is as ``Resource.path`` builds it.
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
    victims: tuple[PodFacts, ...]
    violations: int
    """Victims that a disruption budget would have spared."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What ``after_reject`` wants done about a pod that fits nowhere; the scheduler does it."""

    plugin: str
    message: str = ""
    nominate: str | None = None
    """Node to nominate; "" clears the nomination, None keeps it."""
    evict: tuple[PodFacts, ...] = ()
    calls: tuple[Call, ...] = ()
    """Writes to carry out now (deallocate a claim, delete a leftover)."""
    code: Code = Code.UNSCHEDULABLE
    """PASS ends the chain with success; UNRESOLVABLE and ERROR end it too."""
    candidates: tuple[Candidate, ...] = ()
    """For explanations: every node that was considered good enough, and those equally good."""
    tied: tuple[str, ...] = ()


@dataclass(slots=True)
class Placement:
    """A decision: this pod on that node, with what each plugin prepared for it.

    Reserving plugins add to ``annotations``; the binder sends them with the Binding, so that the
    pod carries them from the very write that binds it.
    """

    pod: PodFacts
    row: int
    node: str
    states: dict[str, State]
    annotations: dict[str, str] = field(default_factory=dict)
    now: float = 0.0
    """When it was decided, for the time stamps of what is written."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """(reason, message) of events to write once the pod is bound."""


class Plugin(Protocol):
    """What every plugin has: a name, and which epochs its remembered answers depend on.

    Two more class variables may be set; absent means False. ``sliced``: filter and score also
    take a slice instead of an array of rows (``column[rows]`` works for both), which saves a copy
    of every column; such a plugin may be asked about rows that are no nodes, and never answers
    ERROR. ``beyond_spec``: ``reads`` looks at more of the pod than its spec, namespace and visible
    labels (annotations, status, matched reservations), so it must be asked for every pod;
    otherwise pods of equal spec are taken to read alike.

    The ``layout`` epoch is implied: a state may hold on to arrays of the picture.
    """

    name: ClassVar[str]
    epochs: ClassVar[tuple[str, ...]]


@runtime_checkable
class PreEnqueues(Protocol):
    """Keep a pod out of the queue until something about it changes."""

    def pre_enqueue(self, pod: PodFacts, view: View) -> Reject | None:
        """Say why the pod must not be queued yet, or None."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """Look at the pod once, before any node."""

    def prepare(self, pod: PodFacts, view: View) -> State | Skip | Reject | Narrow | Part:
        """Digest the pod; may rule itself out, or every node, or all but some rows.

        Unless the scope is CLUSTER the state serves every pod with the same ``reads``: it may
        keep arrays of the picture, but nothing of this pod alone, and not the view.
        """
        ...


@runtime_checkable
class Filters(Protocol):
    """Rule nodes out."""

    scope: ClassVar[Scope]

    def reads(self, pod: PodFacts, view: View) -> Any:
        """Everything of the pod that filter and score depend on, hashable: the cache key."""
        ...

    def filter(self, state: State, rows: Rows, change: Change = NONE) -> Verdicts:
        """Answer for each row with 0, 1 or 2 (see Code).

        DOMAIN and CLUSTER plugins may also answer 4 (ERROR): it fails the whole attempt.
        """
        ...

    def reasons(self, state: State, row: int, change: Change = NONE) -> tuple[str, ...]:
        """Put a rejection into upstream's words; asked only when someone wants to know."""
        ...


@runtime_checkable
class Tallies(Protocol):
    """Count reasons over many rejected rows at once, so that nobody walks over nodes."""

    def tally(self, state: State, rows: Rows) -> Mapping[str, int]:
        """How many of these rows, all rejected by this plugin, give each reason."""
        ...


@runtime_checkable
class Scores(Protocol):
    """Prefer some nodes."""

    scope: ClassVar[Scope]

    def reads(self, pod: PodFacts, view: View) -> Any:
        """Everything of the pod that filter and score depend on, hashable: the cache key."""
        ...

    def score(self, state: State, rows: Rows) -> RawScores:
        """Raw score of each row; whole numbers, exact in float64."""
        ...


@runtime_checkable
class PreScores(Protocol):
    """Look at the feasible rows once before scoring; Skip leaves this plugin out of the sum."""

    def pre_score(self, state: State, feasible: Rows) -> Skip | Reject | None:
        """Prepare for scoring these rows."""
        ...


@runtime_checkable
class Normalizes(Protocol):
    """Bring raw scores of the feasible rows into 0..100."""

    def normalize(self, state: State, rows: Rows, raw: RawScores) -> RawScores:
        """Scores of ``rows`` in 0..100; rows are all the feasible ones."""
        ...


@runtime_checkable
class Scales(Protocol):
    """Normalize by the lowest and highest raw score alone, so that one row can be renewed."""

    def scale(self, state: State, raw: Any, low: float, high: float) -> Any:
        """Bring raw scores (an array, or one number) into 0..100, cell by cell."""
        ...


@runtime_checkable
class ScalarTwin(Protocol):
    """Answer for one row in plain integers: what makes the next pod of a class cheap."""

    def row(self, state: State, row: int) -> tuple[int, float]:
        """The same verdict and raw score as filter and score give, for one row.

        A plugin that only filters answers 0 as its score, one that only scores 0 as verdict.
        """
        ...


@runtime_checkable
class JudgesOne(Protocol):
    """Answer for one row under a change in plain integers: what preemption asks by the thousand."""

    def verdict(self, state: State, row: int, change: Change) -> int:
        """The same verdict as filter gives, for one row."""
        ...


@runtime_checkable
class Tiers(Protocol):
    """Strict pools: a lower tier wins whatever the scores say."""

    def tier(self, state: State, rows: Rows) -> NDArray[np.int32]:
        """Tier of each row; only rows of the lowest feasible tier are ranked."""
        ...


@runtime_checkable
class AfterRejects(Protocol):
    """Do something about a pod that fits nowhere (PostFilter)."""

    def after_reject(self, state: State | None, rejection: Any, view: View) -> Effect:
        """Answer with an effect; its message becomes part of the pod's condition."""
        ...


@runtime_checkable
class Reserves(Protocol):
    """Enter and withdraw promises in the ledgers; in memory, at once, symmetrical."""

    def reserve(self, state: State, placement: Placement) -> Reject | None:
        """Enter the promise; a Reject undoes every plugin's reserve in reverse order."""
        ...

    def unreserve(self, state: State, placement: Placement) -> None:
        """Withdraw it; must be idempotent and never fail."""
        ...


@runtime_checkable
class PreBinds(Protocol):
    """Write to the API server before the pod is bound."""

    def pre_bind(self, state: State, placement: Placement) -> Calls:
        """Yield the writes in order; each yield returns the stored object."""
        ...

    def undo_bind(self, state: State, placement: Placement) -> Calls:
        """Yield the writes that undo pre_bind; errors are logged, not raised."""
        ...


@runtime_checkable
class Binds(Protocol):
    """Bind the pod."""

    def bind(self, state: State, placement: Placement) -> Calls | Skip:
        """Yield the binding call, or Skip to leave it to the next binder."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something happened: which resource, which action.

    Pods are told apart by whether they stand on a node: ``AssignedPod``, ``UnschedulablePod``.
    Other resources go by their kind. Actions are ``Add``, ``Delete``, ``Update``, or what changed:
    ``UpdateNodeTaint``, ``UpdatePodLabel`` and so on. Hints are asked about every event.
    """

    resource: str
    action: str
    old: Any = None
    new: Any = None

    @property
    def about_pod(self) -> bool:
        """Whether it is about a pod, standing or waiting."""
        return self.resource in ("AssignedPod", "UnschedulablePod", "Pod")

    def is_about(self, pod: PodFacts) -> bool:
        """Whether it is about this very pod."""
        return self.about_pod and self.new is not None and self.new.uid == pod.pod.uid


@runtime_checkable
class Hints(Protocol):
    """Name the events that may make a pod it rejected schedulable."""

    def hint(self, event: ClusterEvent, pod: PodFacts, view: View) -> bool:
        """Tell whether ``event`` is worth another try of ``pod``."""
        ...


_IMPLEMENTED: dict[tuple[type, type], bool] = {}


def implements(plugin: Any, point: type) -> bool:
    """Tell whether a plugin has an extension point; asking a Protocol each time is slow."""
    key = (type(plugin), point)
    found = _IMPLEMENTED.get(key)
    if found is None:
        found = _IMPLEMENTED[key] = isinstance(plugin, point)
    return found
