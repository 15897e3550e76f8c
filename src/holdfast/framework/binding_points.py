"""The extension points of the binding cycle, which write to the API server."""

from __future__ import annotations

from typing import Protocol

from holdfast.framework.traits import Plugin
from holdfast.framework.values import ApiCalls, Placement, PreBindCalls, Skip, State


class PreBindPlugin(Plugin, Protocol):
    """Write to the API server before the pod is bound."""

    def pre_bind(self, state: State, placement: Placement) -> PreBindCalls:
        """Yield the writes in order; each yield returns the stored object.

        It may return a Reject of the code UNSCHEDULABLE or UNRESOLVABLE if the pod has to wait for
        something that others change, a quota for example: the writes are undone, and an event of
        this plugin or ``retry_at`` requeues the pod. Events during the attempt are not evaluated,
        so ``retry_at`` should be set. Only a PendingPreBindPlugin may return PENDING.
        """
        ...

    def undo_pre_bind(self, state: State, placement: Placement) -> ApiCalls:
        """Yield the writes that undo ``pre_bind``; errors are logged, not raised."""
        ...


class PreBindPreFlightPlugin(PreBindPlugin, Protocol):
    """Tell that PreBind has nothing to do: then the pod's expected node need not be written."""

    def pre_bind_pre_flight(self, state: State, placement: Placement) -> bool:
        """Return whether ``pre_bind`` yields any call for this placement, or may end pending."""
        ...


class PendingPreBindPlugin(PreBindPlugin, Protocol):
    """Write something that another component answers, and end the attempt until it has.

    After ``pre_bind`` returned ``Reject(Code.PENDING, reasons)`` the pod waits for an event of this
    plugin. Its writes stay; those of plugins before it are undone, and all plugins unreserve.
    """

    def may_end_pending(self, state: State, placement: Placement) -> bool:
        """Return whether ``pre_bind`` may return PENDING: then events since the pop are kept."""
        ...


class NominatingPreBindPlugin(PreBindPlugin, Protocol):
    """Write the pod's expected node with a patch of its status that PreBind sends anyway."""

    def writes_nominated_node(self, state: State, placement: Placement) -> bool:
        """Return whether ``pre_bind`` writes ``nominatedNodeName`` before it waits."""
        ...


class BindPlugin(Plugin, Protocol):
    """Bind the pod."""

    def bind(self, state: State, placement: Placement) -> ApiCalls | Skip:
        """Yield the binding call, or return Skip to leave it to the next bind plugin."""
        ...


class PostBindPlugin(Plugin, Protocol):
    """Clean up after a pod is bound."""

    def post_bind(self, state: State, placement: Placement) -> ApiCalls | None:
        """Clean up; writes may be yielded. Errors are logged: the pod stays bound."""
        ...
