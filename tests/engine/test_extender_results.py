"""Results of extenders applied to the current world, and combined results of PostFilter."""

from dataclasses import replace

from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.extender_results import ExtenderResults, apply_extender_results
from holdfast.scheduling.engine.post_filter import run_post_filter_plugins
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.extender import (
    ExtenderConfig,
    ExtenderFilterResult,
    ExtenderPreemption,
)
from holdfast.scheduling.framework.plugin import ApiCall, Candidate, Code, Plugin, PostFilterResult
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, a_pod, typed

PROFILE = default_profiles()["default-scheduler"]


def a_world(*objects):
    world = World()
    for raw in objects:
        world.upsert(typed(raw))
    return world


def found_for(world, pod=None):
    return feasible(PROFILE, PROFILE.view(world.pod_info(typed(pod or a_pod())), world, 0.0))


def test_each_extender_removes_nodes_and_the_first_reason_of_a_node_stays():
    results = ExtenderResults.before_calls(["a", "b", "c"])
    results.add_filter_result(ExtenderFilterResult(("a", "b"), failed={"c": "first"}))
    results.add_filter_result(
        ExtenderFilterResult(("a",), unresolvable={"b": "never", "c": "second"})
    )
    assert results.allowed == ("a",)
    statuses = {name: (status.code, status.reasons) for name, status in results.statuses.items()}
    assert statuses == {
        "b": (Code.UNRESOLVABLE, ("never",)), "c": (Code.UNSCHEDULABLE, ("first",)),
    }  # fmt: skip


def test_extender_scores_are_scaled_to_100_and_weighted():
    results = ExtenderResults.before_calls(["a", "b"])
    results.add_scores(ExtenderConfig(weight=3), {"a": 10, "stranger": 1})
    results.add_scores(ExtenderConfig(weight=1), {"a": 1})
    assert results.scores == {"a": 310, "stranger": 30}


def test_extender_results_never_make_a_node_feasible():
    world = a_world(a_node("a", cpu="1"), a_node("b", cpu="4"))
    left, scores = apply_extender_results(
        found_for(world, a_pod(cpu="2")), ExtenderResults(frozenset("ab"), ("a", "b"))
    )
    assert [world.nodes.names[row] for row in left.rows] == ["b"]
    assert scores.tolist() == [0, 0]


def test_extenders_are_called_again_if_only_unknown_nodes_remain():
    world = a_world(a_node("a"), a_node("b"))
    assert apply_extender_results(found_for(world), ExtenderResults(frozenset("a"), ())) is None
    refusing = ExtenderResults.before_calls(["a", "b"])
    refusing.add_filter_result(ExtenderFilterResult(()))
    assert isinstance(apply_extender_results(found_for(world), refusing), Rejection)


def test_an_accepted_candidate_counts_while_its_victims_are_the_same():
    pods = [a_world().pod_info(typed(a_pod(name))) for name in "xyz"]
    proposed = {node: Candidate(node, (pod,), 0) for node, pod in zip("ab", pods[:2], strict=True)}
    preemption = ExtenderPreemption(proposed, dict(proposed))
    now = [Candidate("a", (pods[0],), 0), Candidate("b", (pods[2],), 0), Candidate("c", (), 0)]
    assert preemption.still_accepted(now) == [proposed["a"]]


class WithResult(Plugin):
    def __init__(self, name, result):
        self.name = name
        self._result = replace(result, plugin=name)

    def post_filter(self, rejection, view):
        return self._result


def together(*results):
    world = a_world(a_node("n", cpu="1"))
    rejection = found_for(world, a_pod(cpu="2"))
    plugins = tuple(WithResult(f"w{i}", result) for i, result in enumerate(results))
    return run_post_filter_plugins(Profile("test", plugins), rejection, world, 0.0)


def test_the_result_that_ends_post_filter_decides_but_all_calls_count():
    write = ApiCall("delete", "/x")
    cleaning = PostFilterResult("", "cleaned up", calls=(write,))
    for code in (Code.PASS, Code.UNRESOLVABLE, Code.ERROR):
        result = together(
            cleaning, PostFilterResult("", "the end", code=code), PostFilterResult("", "not called")
        )
        assert (result.message, result.code, result.calls) == ("the end", code, (write,))
    result = together(cleaning, PostFilterResult("", "no use"))
    assert (result.message, result.calls) == ("cleaned up, no use", (write,))
