"""Plugins that are called for one node at a time."""

import pytest

from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.per_node import PerNodePlugin, columnar
from holdfast.scheduling.framework.points import Point, has_point
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import FakeCluster, a_node, a_pod, check_plugin

DEFAULT = default_profiles()["default-scheduler"]


class UsesEverything(PerNodePlugin):
    """Uses everything that NodeInfo offers."""

    name = "UsesEverything"

    def fits(self, pod, node):
        if len(node.pods) >= 3:
            return "too many pods"
        if node.free("cpu") < 0.2 * node.allocatable("cpu") or node.free("pods") < 2:
            return "too full"
        if any(other.metadata.labels == pod.metadata.labels for other in node.pods):
            return f"one like it is on {node.name}"
        return None

    def score(self, pod, node):
        crowd = 10 * len(node.pods) + len(node.labels) + int(node.free("memory") > 2**30)
        return max(0, 100 - crowd - len(pod.metadata.labels))


class WithReads(UsesEverything):
    name = "WithReads"

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


@pytest.mark.parametrize("kind", [UsesEverything, WithReads, OnlyFilters, OnlyScores])
def test_it_conforms(kind):
    check_plugin(kind)


def test_only_overridden_methods_make_an_extension_point():
    filters, scores = columnar(OnlyFilters({})), columnar(OnlyScores({}))
    assert (has_point(filters, Point.FILTER), has_point(filters, Point.SCORE)) == (True, False)
    assert (has_point(scores, Point.FILTER), has_point(scores, Point.SCORE)) == (False, True)
    assert columnar(filters) is filters
    with pytest.raises(TypeError, match="PerNodePlugin has neither fits nor score"):
        columnar(PerNodePlugin())


def test_the_result_of_fits_is_the_reason():
    closed = cluster(
        a_node("a"), a_node("b"), a_node("c"), plugin=OnlyFilters({"a": "closed", "b": "closed"})
    )
    assert closed.place(a_pod("p")) == "c"
    everywhere = cluster(a_node("a"), a_node("b"), plugin=OnlyFilters({"a": "shut", "b": "shut"}))
    assert everywhere.why(a_pod("p")).startswith("0/2 nodes are available: 2 shut.")


def test_without_reads_every_change_counts():
    """Nothing is cached, so a changed annotation counts."""
    ranked = cluster(a_node("a", annotations={"rank": "1"}), a_node("b"), plugin=OnlyScores())
    assert ranked.explain(a_pod("p"))["best"] == ["a"]
    ranked.add(a_node("b", annotations={"rank": "100"}))
    assert ranked.explain(a_pod("p"))["best"] == ["b"]


@pytest.mark.parametrize("kind", [UsesEverything, WithReads])
def test_placed_pods_are_on_the_node(kind):
    crowded = cluster(a_node("a"), a_node("b"), plugin=kind())
    labels = {"app": "one"}
    assert {crowded.place(a_pod(f"p{i}", labels=labels)) for i in range(2)} == {"a", "b"}
    assert crowded.place(a_pod("p3", labels=labels)) == ""
    assert "one like it is on a" in crowded.why(a_pod("p3", labels=labels))
    assert crowded.place(a_pod("other", labels={"app": "two"})) in ("a", "b")


def test_a_cached_result_is_dropped_when_labels_of_pods_change():
    """No selector names the label: only the plugin reads it."""
    labels, other = {"app": "one"}, {"app": "two"}
    standing = cluster(a_node("a"), a_pod("s", node="a", labels=labels), plugin=WithReads())
    assert standing.place(a_pod("p1", labels=labels)) == ""
    standing.add(a_pod("s", node="a", labels=other))
    assert standing.place(a_pod("p2", labels=labels)) == "a"


def test_preemption_filters_without_the_victims():
    low = [a_pod(f"low{i}", node="n", labels={"k": str(i)}, priority=1) for i in range(3)]
    full = cluster(a_node("n"), *low, plugin=UsesEverything())
    explained = full.explain(a_pod("p", priority=10), preempt=True)
    assert "too many pods" in explained["message"]
    assert len(explained["preemption"]["victims"]) == 1


@pytest.mark.parametrize(
    ("result", "message"), [(False, "not False"), ("", "not ''"), (3, "not 3")]
)
def test_an_invalid_result_of_fits_is_reported(result, message):
    class Odd(PerNodePlugin):
        name = "Odd"

        def fits(self, _pod, _node):
            return result

    with pytest.raises(TypeError, match=f"Odd.fits must return None or a reason, {message}"):
        cluster(a_node("n"), plugin=Odd()).place(a_pod("p"))


@pytest.mark.parametrize("result", [-1, 101, 0.5, None])
def test_a_score_out_of_range_is_reported(result):
    class Odd(PerNodePlugin):
        name = "Odd"

        def score(self, _pod, _node):
            return result

    with pytest.raises(ValueError, match=r"Odd\.score must return 0 to 100, not"):
        cluster(a_node("n"), a_node("m"), plugin=Odd()).place(a_pod("p"))
