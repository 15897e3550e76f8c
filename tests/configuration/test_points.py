"""Plugin sets are expanded into one list a point, as upstream does."""

from configuration.config_builders import config, mistakes, names, off, on, only, profile
from holdfast.api.strict_decode import decode_struct as read_struct
from holdfast.scheduling.configuration.catalog import Catalog
from holdfast.scheduling.configuration.document import ProfileDocument
from holdfast.scheduling.configuration.problems import Problems
from holdfast.scheduling.configuration.profiles import ProfileBuilder
from holdfast.scheduling.configuration.reading import read
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, a_pod
from holdfast.testing.fake_cluster import FakeCluster

DEFAULT = default_profiles()["default-scheduler"]


def test_an_empty_profile_equals_the_built_in_one():
    found = only(config({}))
    assert found.name == "default-scheduler"
    for point in set(Point) - {Point.PRE_FILTER}:
        assert names(found, point) == names(DEFAULT, point), point
    assert sorted(names(found, Point.PRE_FILTER)) == sorted(
        name for name in names(DEFAULT, Point.PRE_FILTER) if name in names(found, Point.PRE_FILTER)
    )
    assert all(
        found.weight(p.name) == DEFAULT.weight(p.name) for p in found.plugins_at(Point.SCORE)
    )


def test_an_empty_profile_decides_as_the_built_in_one():
    objects = [a_node("a", cpu="4"), a_node("b", cpu="2"), a_pod("s", cpu="2", node="a")]
    configured = FakeCluster(*objects, profile=only(config({})))
    pod = a_pod("p", cpu="1")
    assert configured.explain(pod)["nodes"] == FakeCluster(*objects).explain(pod)["nodes"]
    big = a_pod("big", cpu="9")
    assert configured.why(big) == FakeCluster(*objects).why(big)


def test_a_plugin_enabled_at_a_point_is_first_at_that_point_only():
    found = only(config(profile(filter=on("VolumeZone", "NodePorts"))))
    assert names(found, Point.FILTER)[:3] == ["VolumeZone", "NodePorts", "NodeUnschedulable"]
    assert names(found, Point.SCORE) == names(DEFAULT, Point.SCORE)


def test_the_first_filter_of_the_point_names_the_reason():
    cordoned = a_node("n", cpu="1", unschedulable=True)
    pod = a_pod("p", cpu="2")
    assert "were unschedulable" in FakeCluster(cordoned).why(pod)
    fit_first = only(config(profile(filter=on("NodeResourcesFit"))))
    assert "Insufficient cpu" in FakeCluster(cordoned, profile=fit_first).why(pod)


def test_disabled_and_enabled_at_a_point_means_last_there():
    found = only(config(profile(filter=off("NodeName") | on("NodeName"))))
    assert names(found, Point.FILTER)[-1] == "NodeName"


def test_a_plugin_disabled_at_one_point_stays_enabled_at_the_others():
    found = only(config(profile(score=off("NodeResourcesFit"))))
    assert "NodeResourcesFit" not in names(found, Point.SCORE)
    assert names(found, Point.FILTER) == names(DEFAULT, Point.FILTER)


def test_multipoint_can_be_cleared():
    few = ("PrioritySort", "NodeName", "DefaultBinder")
    found = only(config(profile(multiPoint=off("*") | on(*few))))
    assert [plugin.name for plugin in found.plugins] == list(few)


def test_weights_of_the_score_set_take_precedence_and_zero_means_one():
    found = only(
        config(
            profile(
                multiPoint=on(ImageLocality=4, NodeAffinity=3),
                score=on(ImageLocality=9, NodeAffinity=0),
            )
        )
    )
    assert (found.weight("ImageLocality"), found.weight("NodeAffinity")) == (9, 1)
    assert found.weight("TaintToleration") == 3


def test_a_filter_plugin_runs_its_pre_filter_even_if_disabled_there():
    raw = config(profile(preFilter=off("*")))
    found = read(raw)
    (warning,) = found.warnings
    assert warning.startswith("profiles[0].plugins.preFilter.disabled: NodeAffinity, NodePorts, ")
    assert "NodeName" not in warning
    chosen = found.profiles["default-scheduler"]
    full = FakeCluster(a_node("n", cpu="1"), profile=chosen)
    assert "Insufficient cpu" in full.why(a_pod("p", cpu="2"))


def test_a_score_plugin_runs_its_pre_score_even_if_disabled_there():
    found = read(config(profile(preScore=off("NodeResourcesFit"))))
    assert "preScore.disabled: NodeResourcesFit cannot score without preScore" in found.warnings[0]
    assert "NodeResourcesFit" in names(found.profiles["default-scheduler"], Point.SCORE)
    assert not read(config(profile(preScore=off("*"), score=off("*")))).warnings


def test_a_plugin_may_be_enabled_at_points_that_only_upstreams_implements():
    koordinator = profile(
        "koord-scheduler",
        preFilter=on("Reservation"), filter=on("Reservation"), postFilter=on("Reservation"),
        preScore=on("Reservation"), score=on(Reservation=5000), reserve=on("Reservation"),
        preBind=on("Reservation"), bind=off("*") | on("Reservation", "DefaultBinder"),
    )  # fmt: skip
    found = read(config(koordinator))
    assert not found.warnings
    assert found.profiles["koord-scheduler"].weight("Reservation") == 5000
    assert only(config(profile(preScore=on("TaintToleration", "NodeResourcesFit"))))


def test_reservation_without_reserve_is_a_warning():
    found = read(config(profile(reserve=off("Reservation"))))
    assert "Reservation" not in names(found.profiles["default-scheduler"], Point.RESERVE)
    assert [w for w in found.warnings if "profiles[0].plugins.reserve: Reservation" in w]
    assert not read(config(profile(multiPoint=off("Reservation")))).warnings


def test_resources_that_extenders_ignore_replace_those_of_the_arguments():
    """They replace ``ignoredResources`` of the arguments, as upstream."""
    args = {"NodeResourcesFit": {"ignoredResources": ["e.com/y"]}}
    raw = read_struct(ProfileDocument, profile(args=args), "", [])
    builder = ProfileBuilder("p", "profiles[0]", raw, Catalog(), Problems())
    cluster = FakeCluster(a_node("n"), profile=builder.build(["e.com/x"]))
    assert cluster.explain(a_pod("p", requests={"e.com/x": "1"}))["best"] == ["n"]
    assert "Insufficient e.com/y" in cluster.why(a_pod("q", requests={"e.com/y": "1"}))


def test_several_profiles_are_independent():
    packing = profile("packing", score=off("NodeResourcesBalancedAllocation"))
    found = read(config(profile("default-scheduler"), packing)).profiles
    assert list(found) == ["default-scheduler", "packing"]
    assert len(names(found["packing"], Point.SCORE)) == len(names(DEFAULT, Point.SCORE)) - 1


def test_invalid_plugin_sets_are_reported():
    def wrong(**sets):
        return mistakes(config(profile(**sets)))

    at = "profiles[0].plugins"
    assert wrong(filter=on("NodeNam")) == [
        f'{at}.filter.enabled[0]: FilterPlugin "NodeNam" does not exist: did you mean "NodeName"?'
    ]
    assert wrong(multiPoint=on("Quux")) == [
        f'{at}.multiPoint.enabled[0]: plugin "Quux" does not exist: '
        "name your own plugin as module:Class"
    ]
    assert wrong(score=on("NodeName")) == [
        f'{at}.score.enabled[0]: plugin "NodeName" does not extend ScorePlugin plugin'
    ]
    assert wrong(filter=on("NodePorts", "NodePorts")) == [
        f'{at}.filter.enabled[1]: plugin "NodePorts" already registered as "FilterPlugin"'
    ]
    assert wrong(multiPoint=on("NodePorts", "NodePorts")) == [
        f'{at}.multiPoint.enabled[1]: plugin "NodePorts" already registered as "PreFilterPlugin"'
    ]
    assert wrong(bind=off("*")) == [
        f"{at}.bind: at least one bind plugin is needed for profile with scheduler name "
        '"default-scheduler"'
    ]
    assert wrong(queueSort=off("*")) == [
        f"{at}.queueSort: only one queue sort plugin required for profile with scheduler name "
        '"default-scheduler", but got 0'
    ]
    assert wrong(queueSort=on("NodeName")) == [
        f'{at}.queueSort.enabled[0]: plugin "NodeName" does not extend QueueSortPlugin plugin',
        f"{at}.queueSort: only one queue sort plugin required for profile with scheduler name "
        '"default-scheduler", but got 2',
    ]
    assert wrong(score=on(ImageLocality=-1)) == [
        f"{at}.score.enabled[0].weight: Invalid value: -1: must not be negative"
    ]
    assert wrong(score=on(ImageLocality=2**62)) == [
        f"{at}.score: score plugins: total score of Score plugins could overflow"
    ]
    assert wrong(filter=on("EBSLimits")) == [
        f'{at}.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" '
        '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
    ]
    assert wrong(permit=on("Coscheduling"), placementScore=on("NodeResourcesFit")) == [
        f"{at}.placementScore: workload scheduling is not built; leave it out",
        f"{at}.permit.enabled[0]: plugin Coscheduling is not built; leave it out",
    ]


def test_all_profiles_share_one_queue_sort_plugin():
    other = profile("b", queueSort=on("PrioritySort"))
    assert mistakes(config(profile("a"), other)) == [
        'profiles[1].plugins.queueSort: Invalid value: {"enabled":[{"name":"PrioritySort"}]}: '
        "must be the same for all profiles"
    ]
    assert mistakes(config(profile("a", queueSort=on("PrioritySort")), other)) == []
    two = on("PrioritySort", "PrioritySort")
    assert (
        "profiles[0].plugins.queueSort.enabled: Invalid value: 2: only one queue sort plugin can "
        "be enabled"
    ) in mistakes(config(profile("a", queueSort=two)))
