"""What plugins want done about a pod that fits nowhere (PostFilter)."""

from __future__ import annotations

from dataclasses import replace

from holdfast.engine.decision_cache import decision_cache
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import (
    Code,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    implements,
)
from holdfast.framework.rejection import Rejection
from holdfast.framework.view import View
from holdfast.framework.world import World


def run_post_filter_plugins(
    profile: Profile, rejection: Rejection, world: World, now: float
) -> PostFilterResult | None:
    """Ask the plugins what to do about a pod that fits nowhere (PostFilter).

    They are asked in order until one succeeds or says that nothing can help; what they say is
    joined, and the last one to say something about the nomination is heard.
    """
    if rejection.error or not rejection.nodes or rejection.pod.excess:
        return None
    view = View(
        world, rejection.pod, now, offers=decision_cache(profile, world).allocates_reservations
    )
    results: list[PostFilterResult] = []
    for plugin in profile.plugins_at(PostFilterPlugin):
        if _missed(plugin, rejection):
            # Another plugin's word ended preparing before this one's turn; upstream's says this.
            result = PostFilterResult(plugin.name, "not found", code=Code.ERROR)
        else:
            result = plugin.post_filter(rejection.states.get(plugin.name), rejection, view)
        results.append(result)
        if result.code is not Code.UNSCHEDULABLE:
            break
    return _merged(results) if results else None


def _missed(plugin: Plugin, rejection: Rejection) -> bool:
    """Whether a plugin that needs what it prepared did not get to prepare."""
    if plugin.traits.post_filter_without_state or not implements(plugin, PreFilterPlugin):
        return False
    return plugin.name not in rejection.pre_filtered


def _merged(results: list[PostFilterResult]) -> PostFilterResult:
    """What they want together; one that ended the asking has the only word, but writes stand."""
    last = results[-1]
    calls = tuple([call for e in results for call in e.calls])
    notes = tuple([note for e in results for note in e.events])
    if last.code is not Code.UNSCHEDULABLE:
        # Most times nobody else has anything to write.
        alone = calls == last.calls and notes == last.events
        return last if alone else replace(last, calls=calls, events=notes)
    return PostFilterResult(
        plugin=", ".join(e.plugin for e in results),
        message=", ".join(e.message for e in results if e.message),
        nominated_node=next(
            (e.nominated_node for e in reversed(results) if e.nominated_node is not None), None
        ),
        victims=tuple(pod for e in results for pod in e.victims),
        calls=calls,
        code=last.code,
        events=notes,
    )
