"""Plugins that think of one node at a time are right in columns too."""

import pytest

from holdfast.engine.profile import Profile
from holdfast.framework.per_node import PerNodePlugin, columnar
from holdfast.framework.plugin import FilterPlugin, ScorePlugin, implements
from holdfast.plugins import default_profiles
from holdfast.testing import FakeCluster, a_node, a_pod, check_plugin

DEFAULT = default_profiles()["default-scheduler"]


class RoomFor(PerNodePlugin):
    """Looks at everything there is to see of a node."""

    name = "RoomFor"

    def fits(self, pod, node):
        if len(node.pods) >= 3:
            return "too many pods"
        if node.free("cpu") < 0.2 * node.allocatable("cpu") or node.free("pods") < 2:
            return "too full"
        if any(other.metadata.labels == pod.metadata.labels for other in node.pods):
            return f"one like it stands on {node.name}"
        return None

    def score(self, pod, node):
        crowd = 10 * len(node.pods) + len(node.labels) + int(node.free("memory") > 2**30)
        return max(0, 100 - crowd - len(pod.metadata.labels))


class Remembered(RoomFor):
    name = "Remembered"

    def reads(self, pod):
        return tuple(sorted(pod.metadata.labels.items()))


class OnlyFilters(PerNodePlugin):
    name = "OnlyFilters"

    def fits(self, _pod, node):
        return self.args.get(node.name)


class OnlyScores(PerNodePlugin):
    name = "OnlyScores"

    def score(self, _pod, node):
        return int(node.annotations.get("rank", "0"))


def cluster(*objects, plugin):
    plugins = (*DEFAULT.plugins, columnar(plugin))
    return FakeCluster(*objects, profile=Profile("p", plugins, {**DEFAULT.weights, plugin.name: 9}))


@pytest.mark.parametrize("kind", [RoomFor, Remembered, OnlyFilters, OnlyScores])
def test_it_conforms(kind):
    check_plugin(kind)


def test_only_what_is_written_is_a_part():
    filters, scores = columnar(OnlyFilters({})), columnar(OnlyScores({}))
    assert (implements(filters, FilterPlugin), implements(filters, ScorePlugin)) == (True, False)
    assert (implements(scores, FilterPlugin), implements(scores, ScorePlugin)) == (False, True)
    assert columnar(filters) is filters
    with pytest.raises(TypeError, match="PerNodePlugin has neither fits nor score"):
        columnar(PerNodePlugin())


def test_its_words_are_the_reason():
    closed = cluster(
        a_node("a"), a_node("b"), a_node("c"), plugin=OnlyFilters({"a": "closed", "b": "closed"})
    )
    assert closed.place(a_pod("p")) == "c"
    everywhere = cluster(a_node("a"), a_node("b"), plugin=OnlyFilters({"a": "shut", "b": "shut"}))
    assert everywhere.why(a_pod("p")).startswith("0/2 nodes are available: 2 shut.")


def test_nothing_it_may_look_at_is_missed():
    """No answer is remembered, so an annotation that changes is seen."""
    ranked = cluster(a_node("a", annotations={"rank": "1"}), a_node("b"), plugin=OnlyScores())
    assert ranked.explain(a_pod("p"))["best"] == ["a"]
    ranked.add(a_node("b", annotations={"rank": "100"}))
    assert ranked.explain(a_pod("p"))["best"] == ["b"]


@pytest.mark.parametrize("kind", [RoomFor, Remembered])
def test_pods_placed_before_stand_there_already(kind):
    crowded = cluster(a_node("a"), a_node("b"), plugin=kind())
    labels = {"app": "one"}
    assert {crowded.place(a_pod(f"p{i}", labels=labels)) for i in range(2)} == {"a", "b"}
    assert crowded.place(a_pod("p3", labels=labels)) == ""
    assert "one like it stands on a" in crowded.why(a_pod("p3", labels=labels))
    assert crowded.place(a_pod("other", labels={"app": "two"})) in ("a", "b")


def test_a_remembered_answer_goes_with_the_labels_it_looked_at():
    """No selector names the label: only the plugin looks at it."""
    labels, other = {"app": "one"}, {"app": "two"}
    standing = cluster(a_node("a"), a_pod("s", node="a", labels=labels), plugin=Remembered())
    assert standing.place(a_pod("p1", labels=labels)) == ""
    standing.add(a_pod("s", node="a", labels=other))
    assert standing.place(a_pod("p2", labels=labels)) == "a"


def test_preemption_asks_what_would_be_without_the_victims():
    low = [a_pod(f"low{i}", node="n", labels={"k": str(i)}, priority=1) for i in range(3)]
    full = cluster(a_node("n"), *low, plugin=RoomFor())
    told = full.explain(a_pod("p", priority=10), preempt=True)
    assert "too many pods" in told["message"]
    assert len(told["preemption"]["victims"]) == 1


@pytest.mark.parametrize(
    ("answer", "words"), [(False, "not with False"), ("", "not with ''"), (3, "not with 3")]
)
def test_an_answer_that_is_none_is_named(answer, words):
    class Odd(PerNodePlugin):
        name = "Odd"

        def fits(self, _pod, _node):
            return answer

    with pytest.raises(TypeError, match=f"Odd.fits answers with None or with why not, {words}"):
        cluster(a_node("n"), plugin=Odd()).place(a_pod("p"))


@pytest.mark.parametrize("answer", [-1, 101, 0.5, None])
def test_a_score_out_of_range_is_named(answer):
    class Odd(PerNodePlugin):
        name = "Odd"

        def score(self, _pod, _node):
            return answer

    with pytest.raises(ValueError, match=r"Odd\.score answers from 0 to 100, not"):
        cluster(a_node("n"), a_node("m"), plugin=Odd()).place(a_pod("p"))
