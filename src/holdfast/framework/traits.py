"""What every plugin declares: a name, and ``Traits`` that hold for all pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Protocol, TypeGuard, TypeVar

from holdfast.framework.events import ClusterEvent


class Scope(Enum):
    """What a plugin's verdict and score of a row depend on, and so what may be cached."""

    NODE = "node"
    """The Node object (labels, taints, flags), not the pods on it."""
    ROW = "row"
    """That row alone: cached per ``reads(pod)``, recomputed for changed rows only."""
    DOMAIN = "domain"
    """Counters per topology domain, which the plugin updates incrementally: the state is cached
    per ``reads(pod)``, filter and score are called for every pod."""
    CLUSTER = "cluster"
    """Anything: every method is called for every pod."""

    @property
    def cacheable(self) -> bool:
        """Whether verdicts and raw scores are cached between pods."""
        return self in (Scope.NODE, Scope.ROW)


@dataclass(frozen=True, slots=True)
class Traits:
    """How long a plugin's results may be cached and how it may be called.

    ``Traits()`` is correct for every plugin, and the slowest. With another scope, ``epochs`` and
    ``reads_outside_spec`` must name everything else that the results depend on. ``check_plugin``
    tests these declarations.
    """

    scope: Scope = Scope.CLUSTER
    """What the result for a row depends on. Default: anything, so nothing is cached."""
    epochs: tuple[str, ...] = ()
    """Epochs that cached results depend on, besides rows and ``layout``. Default: none."""
    events_to_register: Mapping[str, tuple[str, ...]] | None = None
    """Events for which ``queueing_hint`` is called: actions by resource, () for all actions.
    Default: every event."""
    reads_outside_spec: bool = False
    """``reads`` uses more of a pod than its spec, namespace and visible labels. Default: no."""
    ignores_requests: bool = False
    """``reads`` does not use the pod's resource requests. Default: it does."""
    comparable_states: bool = False
    """Equal states mean equal results, also after an epoch changed. Default: recompute then."""
    accepts_slices: bool = False
    """``rows`` may be a slice, which includes unused rows; ERROR is never returned. Default: no."""
    bounded_scores: bool = False
    """Normalized scores are in 0..100 by construction. Default: they are checked every time."""
    allocates_reservations: bool = False
    """``filter`` decides about resources on nodes with a reservation that the pod owns. Without
    such a plugin in the profile, reserved resources are in use for every pod. Default: no."""
    post_filter_without_state: bool = False
    """``post_filter`` accepts None as state, when ``pre_filter`` did not run. Default: that fails
    the attempt."""

    def registers(self, event: ClusterEvent) -> bool:
        """Return whether ``events_to_register`` includes the event.

        ``Pod`` includes assigned and unassigned pods, ``Update`` every update action.
        """
        registered = self.events_to_register
        return (
            registered is None
            or _includes(registered.get(event.resource), event.action)
            or (event.is_pod_event and _includes(registered.get("Pod"), event.action))
        )


def _includes(actions: tuple[str, ...] | None, action: str) -> bool:
    if actions is None:
        return False
    every = not actions or ("Update" in actions and action.startswith("Update"))
    return every or action in actions


class Plugin(Protocol):
    """What every plugin has. The extension points are protocols that it may implement in addition.

    They are in ``plugin``, ``fast_paths`` (optional, for speed) and ``preemption_support``
    (optional, for filters that depend on the pods of a node).
    """

    @property
    def name(self) -> str:
        """The name in the configuration, in messages and in metrics."""
        ...

    @property
    def traits(self) -> Traits:
        """How long its results may be cached and how it may be called."""
        ...


P = TypeVar("P", bound=Plugin)
_IMPLEMENTED: dict[tuple[type, type], bool] = {}


def implements(plugin: Plugin, point: type[P]) -> TypeGuard[P]:
    """Return whether a plugin has all methods of an extension point; cached per class."""
    key = (type(plugin), point)
    found = _IMPLEMENTED.get(key)
    if found is None:
        found = _IMPLEMENTED[key] = all(
            callable(getattr(plugin, method, None)) for method in methods_of(point)
        )
    return found


def methods_of(point: type[Plugin]) -> list[str]:
    """Return the names of the methods of an extension point."""
    return sorted(method for method in vars(point) if not method.startswith("_"))


TRAIT_NAMES = tuple(field.name for field in fields(Traits))
FORMER_NAMES = {
    "prepare": "pre_filter",
    "after_reject": "post_filter",
    "hint": "queueing_hint",
    "normalize": "normalize_score",
    "undo_bind": "undo_pre_bind",
}
"""Methods of the contract that were renamed: a plugin that has only the old one is rejected."""

NEEDS_CACHED_STATE = ("filter_reservations", "score_reservations")
"""Methods whose results are part of the cached state of another plugin."""


def declaration_fault(plugin: object) -> str:
    """Return what is wrong with a plugin's declarations, or "".

    Wrong are a missing ``traits``, a trait that is an attribute of the plugin itself (it would have
    no effect), a method that has only a former name (it would never be called), and points that
    need a state which pods share, in a plugin of scope CLUSTER.
    """
    kind = type(plugin).__name__
    hint = "(from holdfast.framework.plugin import Traits)"
    misplaced = [name for name in TRAIT_NAMES if hasattr(plugin, name)]
    if misplaced:
        fixed = ", ".join(f"{name}=..." for name in misplaced)
        return (
            f"class {kind} sets {', '.join(misplaced)}, which has no effect: write "
            f"`traits = Traits({fixed})` instead {hint}"
        )
    traits = getattr(plugin, "traits", None)
    if not isinstance(traits, Traits):
        return f"class {kind} has no traits: write `traits = Traits()` in it {hint}"
    for old, new in FORMER_NAMES.items():
        if callable(getattr(plugin, old, None)) and not hasattr(plugin, new):
            return f"class {kind} has a method {old}, which is never called: rename it to {new}"
    if traits.scope is Scope.CLUSTER:
        for point in NEEDS_CACHED_STATE:
            if hasattr(plugin, point):
                return f"class {kind} has a method {point}: its scope must not be CLUSTER"
    return ""
