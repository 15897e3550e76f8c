"""What extenders said, put to the world of now; and what plugins want done, put together."""

from dataclasses import replace

from holdfast.engine.decision import feasible
from holdfast.engine.extender_results import ExtenderResults, apply_extender_results
from holdfast.engine.post_filter import run_post_filter_plugins
from holdfast.engine.profile import Profile
from holdfast.framework.extender import ExtenderConfig, ExtenderFilterResult, ExtenderPreemption
from holdfast.framework.plugin import ApiCall, Candidate, Code, PostFilterResult, Traits
from holdfast.framework.rejection import Rejection
from holdfast.framework.world import World
from holdfast.plugins import default_profiles
from holdfast.testing import a_node, a_pod, typed

PROFILE = default_profiles()["default-scheduler"]


def a_world(*objects):
    world = World()
    for raw in objects:
        world.upsert(typed(raw))
    return world


def found_for(world, pod=None):
    return feasible(PROFILE, world.pod_info(typed(pod or a_pod())), world, 0.0)


def test_each_answer_narrows_and_the_first_word_about_a_node_stays():
    opinion = ExtenderResults.before_calls(["a", "b", "c"])
    opinion.add_filter_result(ExtenderFilterResult(("a", "b"), failed={"c": "first"}))
    opinion.add_filter_result(
        ExtenderFilterResult(("a",), unresolvable={"b": "never", "c": "second"})
    )
    assert opinion.allowed == ("a",)
    told = {name: (word.code, word.reasons) for name, word in opinion.statuses.items()}
    assert told == {
        "b": (Code.UNRESOLVABLE, ("never",)), "c": (Code.UNSCHEDULABLE, ("first",)),
    }  # fmt: skip


def test_ten_points_of_an_extender_are_a_hundred_of_a_plugin_times_its_weight():
    opinion = ExtenderResults.before_calls(["a", "b"])
    opinion.add_scores(ExtenderConfig(weight=3), {"a": 10, "stranger": 1})
    opinion.add_scores(ExtenderConfig(weight=1), {"a": 1})
    assert opinion.scores == {"a": 310, "stranger": 30}


def test_an_opinion_never_makes_a_node_feasible():
    world = a_world(a_node("a", cpu="1"), a_node("b", cpu="4"))
    left, points = apply_extender_results(
        found_for(world, a_pod(cpu="2")), ExtenderResults(frozenset("ab"), ("a", "b"))
    )
    assert [world.nodes.names[row] for row in left.rows] == ["b"]
    assert points.tolist() == [0, 0]


def test_it_is_out_of_date_if_only_nodes_it_knows_nothing_of_are_left():
    world = a_world(a_node("a"), a_node("b"))
    assert apply_extender_results(found_for(world), ExtenderResults(frozenset("a"), ())) is None
    refusing = ExtenderResults.before_calls(["a", "b"])
    refusing.add_filter_result(ExtenderFilterResult(()))
    assert isinstance(apply_extender_results(found_for(world), refusing), Rejection)


def test_an_agreement_holds_where_the_same_pods_would_go():
    pods = [a_world().pod_info(typed(a_pod(name))) for name in "xyz"]
    asked = {node: Candidate(node, (pod,), 0) for node, pod in zip("ab", pods[:2], strict=True)}
    agreement = ExtenderPreemption(asked, dict(asked))
    now = [Candidate("a", (pods[0],), 0), Candidate("b", (pods[2],), 0), Candidate("c", (), 0)]
    assert agreement.still_accepted(now) == [asked["a"]]


class Wants:
    traits = Traits()

    def __init__(self, name, effect):
        self.name = name
        self._effect = replace(effect, plugin=name)

    def post_filter(self, _state, _rejection, _view):
        return self._effect


def together(*effects):
    world = a_world(a_node("n", cpu="1"))
    rejection = found_for(world, a_pod(cpu="2"))
    plugins = tuple(Wants(f"w{i}", effect) for i, effect in enumerate(effects))
    return run_post_filter_plugins(Profile("test", plugins), rejection, world, 0.0)


def test_what_ends_the_asking_has_the_only_word_but_writes_stand():
    write = ApiCall("delete", "/x")
    cleaning = PostFilterResult("", "cleaned up", calls=(write,))
    for code in (Code.PASS, Code.UNRESOLVABLE, Code.ERROR):
        effect = together(
            cleaning, PostFilterResult("", "the end", code=code), PostFilterResult("", "not asked")
        )
        assert (effect.message, effect.code, effect.calls) == ("the end", code, (write,))
    effect = together(cleaning, PostFilterResult("", "no use"))
    assert (effect.message, effect.calls) == ("cleaned up, no use", (write,))
