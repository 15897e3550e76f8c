"""Decisions: ``feasible`` and ``rank``, errors, and what the cache shares between pods."""

import numpy as np
import pytest

from holdfast.runtime.errors import BadConfiguration
from holdfast.scheduling.engine.decision import decide, feasible, rank, scored_rows
from holdfast.scheduling.engine.decision_cache import TwoQueueCache
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.profile import PluginEntry, build_profile
from holdfast.scheduling.engine.scoring import InvalidScore
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    Code,
    Epoch,
    NodeFilter,
    NodeScorer,
    Plugin,
    Reject,
    Scope,
    Skip,
    Tiers,
    Traits,
)
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import PROFILE_NAMES, REGISTRY, default_profiles
from holdfast.scheduling.plugins.default_binder import DefaultBinder
from holdfast.testing import a_node, a_pod, typed


class Plain(NodeFilter, NodeScorer):
    """A plan with the verdicts and scores of its plugin."""

    def __init__(self, plugin):
        self.plugin, self.allowed_rows = plugin, plugin.allowed_rows
        self.filters, self.scores = plugin.verdicts is not None, plugin.scores is not None

    def filter(self, rows, change=NO_CHANGE):
        return np.array([self.plugin.verdicts[int(row)] for row in rows], np.int8)

    def reasons(self, row, change=NO_CHANGE):
        return (f"{self.plugin.name} rejects row {row}",)

    def score(self, rows):
        return np.array([float(self.plugin.scores[int(row)]) for row in rows])


class PlainPlugin(Plugin):
    """A plugin with given results; what ``on`` means is up to its plan."""

    on = True

    def __init__(self, result=None, verdicts=None, scores=None, allowed_rows=None):
        self.result, self.verdicts, self.scores = result, verdicts, scores
        self.allowed_rows = allowed_rows

    def reads(self, pod, view):
        return None

    def pre_filter(self, pod, view):
        return self.result or self.plan_classes[0](self)


def named(name, scope=Scope.CLUSTER, plan=Plain, **options):
    declared = {"name": name, "traits": Traits(scope), "plan_classes": (plan,)}
    return type(name, (PlainPlugin,), declared)(**options)


def profile_of(*plugins, weight=1):
    entries = [PluginEntry(lambda _args, p=p: p, p.name, weight=weight) for p in plugins]
    return build_profile("test", [*entries, PluginEntry(DefaultBinder, "DefaultBinder")])


def world_of(count=3):
    world = World()
    for i in range(count):
        world.upsert(typed(a_node(f"n{i}")))
    return world


def run(world, *plugins, seed=0):
    pod_info = world.pod_info(typed(a_pod()))
    profile = profile_of(*plugins)
    return decide(profile, profile.view(pod_info, world, 0.0), np.random.default_rng(seed))


def test_feasible_and_rank_are_pure():
    world = world_of()
    profile, pod_info = default_profiles()["default-scheduler"], world.pod_info(typed(a_pod()))
    seq, stamp = world.nodes.seq, world.nodes.epochs.stamp
    first = rank(
        profile, feasible(profile, profile.view(pod_info, world, 0.0)), np.random.default_rng(5)
    )
    again = rank(
        profile, feasible(profile, profile.view(pod_info, world, 0.0)), np.random.default_rng(5)
    )
    assert first.row == again.row
    assert (world.nodes.seq, world.nodes.epochs.stamp) == (seq, stamp)
    assert world.nodes.pods() == []


def test_the_first_plugin_that_rejects_a_row_gives_the_reason():
    found = run(
        world_of(),
        named("A", verdicts=[0, 1, 0]), named("B", verdicts=[2, 2, 0]),
        named("C", verdicts=[0, 0, 1]),
    )  # fmt: skip
    assert [found.plugin_at(row) for row in range(3)] == ["B", "A", "C"]
    assert found.codes.tolist() == [2, 1, 1]
    assert found.unschedulable_plugins == {"A", "B", "C"}
    assert found.reasons(1) == ("A rejects row 1",)


def test_an_unresolvable_reject_ends_pre_filter_and_an_unschedulable_one_does_not():
    weak = Reject(Code.UNSCHEDULABLE, ("weak",))
    strong = Reject(Code.UNRESOLVABLE, ("strong",))
    found = run(
        world_of(), named("A", result=weak), named("B", result=Reject(Code.UNSCHEDULABLE, ("b",)))
    )
    assert found.message() == "0/3 nodes are available: b."
    found = run(world_of(), named("A", result=weak), named("B", result=strong))
    assert found.pre_filter_reject == ("B", strong)
    found = run(world_of(), named("A", result=strong), named("B", result=weak))
    assert found.pre_filter_reject == ("A", strong)
    assert found.codes.tolist() == [2, 2, 2]


def test_an_error_on_one_node_fails_the_attempt():
    found = run(world_of(), named("A", verdicts=[0, 4, 0]))
    assert isinstance(found, Rejection)
    assert found.code is Code.ERROR
    assert found.message() == 'running "A" filter plugin: A rejects row 1'
    assert found.unschedulable_plugins == frozenset()


def test_a_filter_does_not_run_for_rows_that_are_rejected_already():
    assert run(world_of(), named("A", verdicts=[0, 1, 1]), named("B", verdicts=[0, 4, 4])).row == 0


def test_a_filter_does_not_run_for_rows_that_a_cached_filter_rejected():
    found = run(
        world_of(),
        named("A", Scope.ROW, verdicts=[0, 1, 1]), named("B", verdicts=[0, 4, 4]),
        named("C", Scope.ROW, verdicts=[0, 0, 0]),
    )  # fmt: skip
    assert found.row == 0


def test_rows_that_pre_filter_does_not_allow_are_not_filtered():
    allowed = np.array([0], np.intp)
    plugins = named("A", allowed_rows=allowed), named("B", verdicts=[1, 1, 1])
    assert run(world_of(), *plugins).message() == (
        "0/3 nodes are available: 1 B rejects row 0, 2 node(s) didn't satisfy plugin(s) [A]."
    )
    world = world_of()
    nominated = world.pod_info(typed(a_pod(status={"nominatedNodeName": "n1"})))
    profile = profile_of(*plugins)
    found = decide(profile, profile.view(nominated, world, 0.0), np.random.default_rng(0))
    assert [found.plugin_at(row) for row in range(2)] == ["B", "B"]
    assert sorted(found.restricting_plugins) == ["A", "B"]


def test_plugins_that_allow_different_rows_reject_the_pod_together():
    left, right = np.array([0], np.intp), np.array([1, 2], np.intp)
    found = run(world_of(), named("B", allowed_rows=left), named("A", allowed_rows=right))
    assert found.message() == (
        "0/3 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously."
    )
    assert found.unschedulable_plugins == {"A", "B"}
    assert run(world_of(), named("A", allowed_rows=left)).row == 0


@pytest.mark.parametrize("wrong", [101, -1])
def test_scores_outside_their_range_are_an_error(wrong):
    with pytest.raises(InvalidScore, match=f'plugin "A" returns an invalid score {wrong}'):
        run(world_of(), named("A", scores=[0, 100, wrong]))


@pytest.mark.parametrize("scope", [Scope.ROW, Scope.CLUSTER])
def test_tiers_come_before_scores(scope):
    class Pools(Plain, Tiers):
        def tier(self, rows):
            return np.array([(1, 0, 0)[row] for row in rows], np.int32)

    scorer = named("A", scope, scores=[100, 1, 2])
    assert run(world_of(), scorer, named("Pools", scope, Pools, verdicts=[0, 0, 0])).row == 2


def test_ties_are_broken_at_random():
    plugin = named("A", scores=[5, 5, 1, 5])
    assert {run(world_of(4), plugin, seed=seed).row for seed in range(20)} == {0, 1, 3}


class Tabled(Plain):
    """A plan with a score table of two entries, if ``on``."""

    def score_table(self, rows):
        if not self.plugin.on:
            return None
        return np.array([int(row) % 2 for row in rows]), np.array([10.0, 20.0])


class PreScoring(Plain):
    """A plan with ``pre_score``, which skips unless ``on``."""

    def pre_score(self, feasible):
        assert feasible.tolist() == [0, 1, 2]
        return None if self.plugin.on else Skip()


def sums_of(plugin, *, weight=1):
    """The totals of all rows; the plugin's own scores are not cached."""
    world = world_of()
    cached = named("Cached", Scope.ROW, scores=[1, 2, 3])
    profile = profile_of(cached, plugin, weight=weight)
    found = feasible(profile, profile.view(world.pod_info(typed(a_pod())), world, 0.0))
    assert [outcome.use.plugin for outcome in found.pod_class.parts.scores_per_pod] == [plugin]
    return scored_rows(profile, found)[1].tolist()


@pytest.mark.parametrize("weight", [1, 2])
def test_scores_that_are_not_kept_are_added_with_their_weight(weight):
    table = named("T", Scope.DOMAIN, Tabled, scores=[9, 8, 7])
    assert sums_of(table, weight=weight) == [11 * weight, 22 * weight, 13 * weight]
    table.on = False
    assert sums_of(table, weight=weight) == [10 * weight, 10 * weight, 10 * weight]


def test_a_plugin_that_skips_at_pre_score_adds_nothing():
    plugin = named("W", Scope.DOMAIN, PreScoring, scores=[9, 8, 7])
    assert sums_of(plugin) == [10, 10, 10]
    plugin.on = False
    assert sums_of(plugin) == [1, 2, 3]


def test_skip_leaves_a_plugin_out():
    assert run(world_of(1), named("A", result=Skip(), verdicts=[2])).row == 0


def test_pods_that_no_plugin_distinguishes_share_a_class():
    world = world_of()
    profile = default_profiles()["default-scheduler"]

    def pod_class(pod):
        return feasible(profile, profile.view(world.pod_info(typed(pod)), world, 0.0)).pod_class

    first = pod_class(a_pod("p", labels={"ordinal": "0"}))
    for i in range(5):
        assert pod_class(a_pod(f"p{i}", labels={"ordinal": str(i)})) is first
    assert pod_class(a_pod("big", cpu="2")) is not first


def test_a_stream_of_pods_seen_once_does_not_evict_a_frequent_class():
    world = world_of()
    profile = default_profiles()["default-scheduler"]

    def pod_class(pod):
        return feasible(profile, profile.view(world.pod_info(typed(pod)), world, 0.0)).pod_class

    often = [pod_class(a_pod("often")) for _ in range(2)][-1]
    once = pod_class(a_pod("once", cpu="1500m"))
    for i in range(100):
        pod_class(a_pod(f"p{i}", cpu=f"{2 + i}m"))
    assert pod_class(a_pod("often")) is often
    assert pod_class(a_pod("once", cpu="1500m")) is not once
    again = pod_class(a_pod("once", cpu="1500m"))
    assert pod_class(a_pod("once", cpu="1500m")) is again


def test_the_least_recently_used_value_is_evicted_first():
    table = TwoQueueCache[int](probation=1)
    for key in ("a", "b"):
        table.put(key, 1, most=2)
        assert table.get(key)
    assert table.get("a")
    for key in ("c", "d", "c"):  # the second time it is frequent
        table.put(key, 1, most=2)
    assert [table.get(key) for key in "abc"] == [1, None, 1]


def test_a_label_that_becomes_visible_splits_the_class():
    world = world_of()
    profile = default_profiles()["default-scheduler"]
    constraint = {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    web = a_pod("web", labels={"app": "web"}, topology_spread_constraints=[constraint])
    other = a_pod("db", labels={"app": "db"}, topology_spread_constraints=[constraint])
    for node in ("n0", "n1"):
        world.upsert(typed(a_pod(f"on-{node}", labels={"app": "web"}, node=node)))
    found = [
        feasible(profile, profile.view(world.pod_info(typed(p)), world, 0.0)).rows.tolist()
        for p in (web, other)
    ]
    assert found == [[2], [0, 1, 2]]


def test_a_node_that_is_added_later_may_be_the_one_a_pod_names():
    world = world_of(2)
    profile = default_profiles()["default-scheduler"]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["late"]}]}
    needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod_info = world.pod_info(typed(a_pod(affinity={"nodeAffinity": needed})))
    assert isinstance(feasible(profile, profile.view(pod_info, world, 0.0)), Rejection)
    world.upsert(typed(a_node("late")))
    assert feasible(profile, profile.view(pod_info, world, 0.0)).rows.tolist() == [2]


def test_feasible_rows_can_be_restricted():
    world = world_of()
    profile, pod_info = default_profiles()["default-scheduler"], world.pod_info(typed(a_pod()))
    found = feasible(profile, profile.view(pod_info, world, 0.0)).restricted_to(
        np.array([1], np.intp)
    )
    assert rank(profile, found, np.random.default_rng(0)).node == "n1"


def test_both_built_in_profiles_have_the_default_set():
    profiles = default_profiles()
    assert tuple(profiles) == PROFILE_NAMES
    for profile in profiles.values():
        names = [plugin.name for plugin in profile.plugins]
        assert names == [entry.name for entry in REGISTRY if entry.default]
        assert profile.weight("TaintToleration") == 3
        assert profile.weight("Reservation") == 5000
        assert profile.weight("NodeResourcesFit") == 1


def test_the_registry_names_plugins_as_they_name_themselves():
    assert [entry.factory({}).name for entry in REGISTRY] == [entry.name for entry in REGISTRY]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"enabled": [("Nonsense", 1)]}, 'plugin "Nonsense" does not exist'),
        ({"enabled": [("NodeName", 1)]}, "at least one bind plugin is needed"),
        ({"enabled": [("NodeName", 1), ("NodeName", 1)]}, "enabled twice"),
        ({"args": {"Nonsense": {}}}, 'plugin "Nonsense" does not exist'),
        ({"args": {"NodeResourcesFit": {"nonsense": 1}}}, 'unknown field "nonsense"'),
        (
            {"args": {"DefaultPreemption": {"minCandidateNodesPercentage": 0,
                                            "minCandidateNodesAbsolute": 0}}},
            "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
            "minCandidateNodesAbsolute, minCandidateNodesAbsolute: Invalid value: 0",
        ),
        (
            {"args": {"NodeResourcesBalancedAllocation": {"resources": [
                {"name": "cpu", "weight": 2}]}}},
            "must be 1",
        ),
        ({"args": {"PodTopologySpread": {"defaultingType": "List", "defaultConstraints": [{}]}}},
         r"defaultConstraints\[0\].maxSkew: Invalid value: 0: not in valid range"),
        ({"args": {"PodTopologySpread": {"defaultConstraints": [
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}}},
         "when .defaultConstraints are not empty"),
        ({"args": {"InterPodAffinity": {"hardPodAffinityWeight": 101}}},
         r"hardPodAffinityWeight: Invalid value: 101: not in valid range \[0, 100\]"),
    ],
)  # fmt: skip
def test_an_invalid_configuration_is_rejected(options, words):
    with pytest.raises(BadConfiguration, match=words):
        build_profile("mine", REGISTRY, **options)


def test_classes_that_differ_in_requests_share_the_results_of_other_plugins():
    world = world_of()
    profile = default_profiles()["default-scheduler"]

    def outcomes(pod):
        pod_class = feasible(
            profile, profile.view(world.pod_info(typed(pod)), world, 0.0)
        ).pod_class
        return {p.use.name: p for p in pod_class.outcomes}

    small, large = outcomes(a_pod("small", cpu="1")), outcomes(a_pod("large", cpu="2"))
    assert small["NodeResourcesFit"] is not large["NodeResourcesFit"]
    assert small["TaintToleration"] is large["TaintToleration"]
    tolerant = outcomes(a_pod("tolerant", cpu="3", tolerations=[{"operator": "Exists"}]))
    assert tolerant["TaintToleration"] is not small["TaintToleration"]
    world.upsert(typed(a_node("new")))
    world.nodes.epochs.bump("layout")
    assert outcomes(a_pod("later", cpu="4"))["TaintToleration"] is not small["TaintToleration"]


class ReadsNewLabels(PlainPlugin):
    """Looks at other labels of pods when ``keys`` changes, and rejects some of their values."""

    name, plan_classes = "ReadsNewLabels", (Plain,)
    traits = Traits(Scope.ROW, epochs=(Epoch.LABELS,), reads_outside_spec=True)
    keys = frozenset()
    refused = frozenset()

    def key_outside_spec(self, pod, view):
        view.nodes.add_selector_keys(self.keys)

    def pre_filter(self, pod, view):
        visible = view.nodes.label_group_of(pod).labels.values()
        return Reject(Code.UNSCHEDULABLE, ("label",)) if self.refused & {*visible} else Skip()


def test_a_key_that_makes_labels_visible_does_not_find_the_class_from_before():
    world, plugin = world_of(), ReadsNewLabels()
    profile = profile_of(plugin)

    def fits(pod):
        pod_info = world.pod_info(typed(pod))
        return isinstance(feasible(profile, profile.view(pod_info, world, 0.0)), Feasible)

    assert fits(a_pod("before", labels={"app": "bad"}))
    plugin.keys, plugin.refused = frozenset({"app"}), frozenset({"bad"})
    assert not fits(a_pod("after", labels={"app": "bad"}))
    assert fits(a_pod("other", labels={"app": "good"}))
