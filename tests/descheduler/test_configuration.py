"""A DeschedulerConfiguration is read strictly, and every mistake is named."""

import pytest

from descheduler.clusters import configured, objects, owned, plan, shown
from holdfast.controllers.descheduler.configuration import DeschedulerConfiguration, read
from holdfast.processes.descheduler import load_settings
from holdfast.runtime.errors import BadConfiguration, NotBuilt
from holdfast.testing import a_node

HEAD = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"}
FULL = {
    **HEAD,
    "deschedulingInterval": "30s",
    "dryRun": True,
    "nodeSelector": {"matchLabels": {"pool": "a"}},
    "maxNoOfPodsToEvictPerNode": 3,
    "maxNoOfPodsToEvictPerNamespace": 4,
    "maxNoOfPodsToEvictTotal": 5,
    "leaderElection": {"leaderElect": False, "resourceNamespace": "koordinator-system"},
    "profiles": [
        {
            "name": "koord-descheduler",
            "plugins": {
                "deschedule": {"enabled": [{"name": "RemovePodsViolatingNodeTaints"}]},
                "balance": {"enabled": [{"name": "LowNodeLoad"}]},
                "evict": {"enabled": [{"name": "MigrationController"}]},
                "filter": {"enabled": [{"name": "MigrationController"}]},
            },
            "pluginConfig": [
                {
                    "name": "MigrationController",
                    "args": {
                        "apiVersion": "descheduler/v1alpha2",
                        "kind": "MigrationControllerArgs",
                        "defaultJobMode": "EvictDirectly",
                        "defaultJobTTL": "1m",
                        "schedulerNames": ["mine"],
                    },
                },
                {
                    "name": "LowNodeLoad",
                    "args": {
                        "apiVersion": "descheduler/v1alpha2",
                        "kind": "LowNodeLoadArgs",
                        "lowThresholds": {"cpu": 20.5},
                        "highThresholds": {"cpu": 70},
                    },
                },
            ],
        }
    ],
}


def test_every_field_is_read():
    found = read(FULL)
    assert (found.interval_seconds, found.dry_run) == (30.0, True)
    assert (found.max_per_node, found.max_per_namespace, found.max_per_cycle) == (3, 4, 5)
    assert found.node_selector.matches({"pool": "a"})
    assert not found.node_selector.matches({})
    (profile,) = found.profiles
    assert profile.name == "koord-descheduler"
    assert [each.policy.name for each in profile.policies] == [
        "RemovePodsViolatingNodeTaints",
        "LowNodeLoad",
    ]
    assert profile.policies[1].args.low_thresholds == {"cpu": 20.5}
    migration = found.migration
    assert (migration.default_mode, migration.default_ttl_seconds) == ("EvictDirectly", 60.0)
    assert migration.scheduler_names == {"mine"}
    election = found.leader_election
    assert (election.leader_elect, election.resource_name) == (False, "holdfast-descheduler")
    assert found.effective()["profiles"][0]["name"] == "koord-descheduler"


def test_without_a_file_all_policies_run_every_two_minutes():
    found = DeschedulerConfiguration()
    assert found.interval_seconds == 120
    assert len(found.profiles[0].policies) == 6
    assert read({}).profiles == found.profiles


def profile(**fields):
    return {"profiles": [fields]}


def enabled(point, name):
    return profile(plugins={point: {"enabled": [{"name": name}]}})


def args(name, **given):
    return profile(pluginConfig=[{"name": name, "args": given}])


AT = "profiles[0].pluginConfig[0].args"
POINT = "profiles[0].plugins"


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ([], ""),
        ({"kind": "Other"}, "kind"),
        ({**HEAD, "apiVersion": "descheduler/v1"}, "apiVersion"),
        ({"intervall": "1m"}, "intervall"),
        ({"deschedulingInterval": 5}, "deschedulingInterval"),
        ({"deschedulingInterval": "0s"}, "deschedulingInterval"),
        ({"maxNoOfPodsToEvictTotal": -1}, "maxNoOfPodsToEvictTotal"),
        ({"maxNoOfPodsToEvictPerNode": "x"}, "maxNoOfPodsToEvictPerNode"),
        ({"leaderElection": {"leaseDuration": "1s"}}, "leaderElection.leaseDuration"),
        ({"profiles": "x"}, "profiles"),
        ({"profiles": [{}, {}]}, "profiles[0].name"),
        ({"profiles": [{"name": "a"}, {"name": "a"}]}, "profiles[1].name"),
        (enabled("balance", "LowNodeLod"), f"{POINT}.balance.enabled[0].name"),
        (enabled("deschedule", "LowNodeLoad"), f"{POINT}.deschedule.enabled[0].name"),
        (enabled("evict", "DefaultEvictor"), f"{POINT}.evict.enabled[0].name"),
        (args("Other"), "profiles[0].pluginConfig[0].name"),
        (args("LowNodeLoad", kind="Other"), f"{AT}.kind"),
        (args("LowNodeLoad", numberOfNodes=-1), f"{AT}.numberOfNodes"),
        (args("LowNodeLoad", highThresholds={"cpu": 101}), f"{AT}.highThresholds[cpu]"),
        (args("LowNodeLoad", highThresholds={"cpu": "x"}), f"{AT}.highThresholds"),
        (
            args("LowNodeLoad", highThresholds={"cpu": 1}, lowThresholds={"cpu": 2}),
            f"{AT}.lowThresholds[cpu]",
        ),
        (
            args("LowNodeLoad", evictableNamespaces={"include": ["a"], "exclude": ["b"]}),
            f"{AT}.evictableNamespaces",
        ),
        (args("RemoveDuplicates", nameSpaces={}), f"{AT}.nameSpaces"),
        (
            args("RemoveDuplicates", namespaces={"include": ["a"], "exclude": ["b"]}),
            f"{AT}.namespaces",
        ),
        (
            args("RemoveDuplicates", labelSelector={"matchLabels": {"a b": "c"}}),
            f"{AT}.labelSelector",
        ),
        (
            args("RemovePodsViolatingNodeAffinity", nodeAffinityType=["x"]),
            f"{AT}.nodeAffinityType[0]",
        ),
        (args("MigrationController", defaultJobMode="x"), f"{AT}.defaultJobMode"),
        (
            args("MigrationController", nodeSelector="a=b=c"),
            "pluginConfig[MigrationController].args.nodeSelector",
        ),
    ],
)
def test_a_mistake_is_named_by_its_field(raw, field):
    with pytest.raises(BadConfiguration) as wrong:
        read(raw)
    assert any(cause.field.startswith(field) for cause in wrong.value.details.causes), wrong.value


def test_all_mistakes_are_reported_together():
    raw = {"dryRun": 1, "deschedulingInterval": "x", **enabled("balance", "Nothing")}
    raw["profiles"] += args("LowNodeLoad", numberOfNodes=-1, nodePools=[])["profiles"]
    with pytest.raises(BadConfiguration) as wrong:
        read(raw)
    assert [cause.field for cause in wrong.value.details.causes] == [
        "dryRun", "deschedulingInterval", "profiles[0].name", f"{POINT}.balance.enabled[0].name",
        "profiles[1].name", "profiles[1].pluginConfig[0].args.numberOfNodes",
        "profiles[1].pluginConfig[0].args.nodePools",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "raw",
    [
        enabled("balance", "HighNodeUtilization"),
        args("LowNodeLoad", nodePools=[{}]),
        args("RemovePodsViolatingTopologySpreadConstraint", constraints=["ScheduleAnyway"]),
        args("MigrationController", skipEvictionGates=["x"]),
    ],
)
def test_what_is_not_built_says_so(raw):
    with pytest.raises(NotBuilt):
        read(raw)


def test_arguments_without_effect_give_a_warning():
    (warning,) = read(args("LowNodeLoad", anomalyCondition={"timeout": "1m"})).warnings
    assert warning.startswith(f"{AT}.anomalyCondition has no effect")


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ("RemovePodsViolatingNodeAffinity", "nodeFit"),
        ("RemoveDuplicates", "nodeFit"),
        ("RemovePodsViolatingTopologySpreadConstraint", "nodeFit"),
        ("RemovePodsViolatingTopologySpreadConstraint", "topologyBalanceNodeFit"),
    ],
)
def test_policies_that_move_only_pods_that_fit_say_so(policy, field):
    assert read(args(policy, **{field: True})).warnings == ()
    (warning,) = read(args(policy, **{field: False})).warnings
    assert warning.startswith(f"{AT}.{field} has no effect")


def test_policies_that_use_node_fit_do_not_warn():
    assert read(args("RemovePodsViolatingNodeTaints", nodeFit=False)).warnings == ()


def test_a_file_may_also_contain_the_configuration_of_the_scheduler(tmp_path):
    path = tmp_path / "both.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine}]\n---\n"
        "apiVersion: descheduler/v1alpha2\nkind: DeschedulerConfiguration\ndryRun: true\n"
    )
    found = load_settings(path)
    assert (found.configuration.dry_run, list(found.profiles)) == (True, ["mine"])
    first, _ = path.read_text().split("---\n")
    path.write_text(first)
    assert not load_settings(path, required=False).configuration.dry_run
    with pytest.raises(BadConfiguration, match=r"both.yaml: expected a DeschedulerConfiguration"):
        load_settings(path)


def crowded(nodes=("n1", "n2")):
    return objects(
        *(a_node(name, cpu="10", labels={"pool": name}) for name in nodes),
        *(owned(f"p{i}", "n1", namespace="a" if i % 2 else "b") for i in range(9)),
    )


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({}, 3),
        ({"maxNoOfPodsToEvictTotal": 1}, 1),
        ({"maxNoOfPodsToEvictTotal": 0}, 0),
        ({"maxNoOfPodsToEvictPerNode": 2}, 2),
        ({"maxNoOfPodsToEvictPerNamespace": 1}, 2),
        ({"nodeSelector": {"matchLabels": {"pool": "n2"}}}, 0),
    ],
)
def test_the_limits_of_a_cycle(fields, count):
    load = configured("LowNodeLoad", LowNodeLoad=LOAD)
    given = read(fields)
    limited = type(given)(
        profiles=load.profiles, node_selector=given.node_selector, max_per_node=given.max_per_node,
        max_per_namespace=given.max_per_namespace, max_per_cycle=given.max_per_cycle,
    )  # fmt: skip
    assert len(plan(crowded(), limited)) == count


LOAD = {"lowThresholds": {"cpu": 30}, "highThresholds": {"cpu": 60}}


def test_targets_may_be_limited_by_the_arguments_of_the_controller():
    load = configured("LowNodeLoad", LowNodeLoad=LOAD)
    for selector, count in (("pool=n2", 3), ("pool=n1", 0)):
        given = read(args("MigrationController", nodeSelector=selector))
        limited = type(given)(profiles=load.profiles, target_selector=given.target_selector)
        assert len(shown(plan(crowded(), limited))) == count
