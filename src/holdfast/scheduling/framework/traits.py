"""The declarations of a plugin that hold for all pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from holdfast.scheduling.framework.events import ActionType, ClusterEvent, EventResource


class Scope(Enum):
    """The inputs of a plugin's verdict and score of a row; they decide what may be cached."""

    NODE = "node"
    """The Node object (labels, taints, flags), not the pods on it."""
    ROW = "row"
    """That row alone: cached per ``reads(pod)``, recomputed for changed rows only."""
    DOMAIN = "domain"
    """Counters per topology domain, which the plugin updates incrementally: the plan is cached
    per ``reads(pod)``, filter and score are called for every pod."""
    CLUSTER = "cluster"
    """Anything: every method is called for every pod."""


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
    """Events that may help pods which the plugin rejected: actions by resource, () for all actions.
    Default: every event."""
    reads_outside_spec: bool = False
    """``reads`` uses more of a pod than its spec, namespace and visible labels. Default: no."""
    ignores_requests: bool = False
    """``reads`` does not use the pod's resource requests. Default: it does."""
    comparable_plans: bool = False
    """Equal plans mean equal results, also after an epoch changed. Default: recompute then."""
    accepts_slices: bool = False
    """``rows`` may be a slice, which includes unused rows; ERROR is never returned. Default: no."""
    bounded_scores: bool = False
    """Normalized scores are in 0..100 by construction. Default: they are checked every time."""
    allocates_reservations: bool = False
    """``filter`` decides about resources on nodes with a reservation that the pod owns. Without
    such a plugin in the profile, reserved resources are in use for every pod. Default: no."""
    post_filter_without_plan: bool = False
    """``post_filter`` is also called without its plan, when ``pre_filter`` did not run. Default:
    the attempt fails then."""

    def registers(self, event: ClusterEvent) -> bool:
        """Return whether ``events_to_register`` includes the event.

        ``Pod`` includes assigned and unassigned pods, ``Update`` every update action.
        """
        registered = self.events_to_register
        return (
            registered is None
            or _includes(registered.get(event.resource), event.action)
            or (event.is_pod_event and _includes(registered.get(EventResource.POD), event.action))
        )


def _includes(actions: tuple[str, ...] | None, action: str) -> bool:
    if actions is None:
        return False
    every = not actions or (ActionType.UPDATE in actions and action.startswith(ActionType.UPDATE))
    return every or action in actions
