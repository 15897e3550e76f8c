"""MigrationControllerArgs: defaults, wrong fields by name, and their way to the settings."""

import pytest
import yaml

from holdfast.controllers.profile_settings import controller_settings
from holdfast.runtime.errors import BadConfiguration, NotBuilt
from holdfast.runtime.settings import MigrationSettings, ObjectLimit
from holdfast.scheduling.configuration.file import load
from holdfast.state.migration.arguments import MigrationControllerArgs, find_args, read_args

SCHEDULING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "podMaxBackoffSeconds": 30,
}


def descheduling(args, **more):
    config = [{"name": "Other"}, {"name": "MigrationController", "args": args}]
    profiles = [{"name": "koord-descheduler", "pluginConfig": config}]
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration",
            "profiles": profiles, **more}  # fmt: skip


@pytest.fixture
def loaded(tmp_path):
    def load_documents(*documents):
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        return load(file)

    return load_documents


def test_no_arguments_are_the_defaults(loaded):
    assert loaded(descheduling(None)).migration == MigrationSettings()
    assert loaded(SCHEDULING).migration == MigrationSettings()
    assert find_args({"profiles": [None, {"pluginConfig": [7]}]}) == MigrationControllerArgs()


def test_a_file_configures_scheduler_and_migration(loaded):
    args = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "MigrationControllerArgs",
        "dryRun": True,
        "maxConcurrentReconciles": 3,
        "evictAllBarePods": True,
        "priorityThreshold": {"name": "system-cluster-critical"},
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaces": {"exclude": ["kube-system"]},
        "maxMigratingGlobally": 9,
        "maxMigratingPerNode": 0,
        "maxMigratingPerWorkload": "20%",
        "maxUnavailablePerWorkload": 2,
        "objectLimiters": {"namespace": {"duration": "1m", "maxMigrating": 4}},
        "defaultJobMode": "EvictDirectly",
        "evictQPS": "2.5",
        "evictBurst": 4,
        "evictionPolicy": "Delete",
        "defaultDeleteOptions": {"gracePeriodSeconds": 0},
        "arbitrationArgs": {"enabled": False, "interval": "2s"},
    }
    found = loaded(SCHEDULING, descheduling(args))
    assert found.backoff == (1.0, 30.0)
    assert controller_settings(found).migration == MigrationSettings(
        workers=3,
        dry_run=True,
        evict_all_bare_pods=True,
        priority_threshold=2_000_000_000,
        label_selector={"matchLabels": {"app": "web"}},
        excluded_namespaces=frozenset({"kube-system"}),
        max_globally=9,
        max_per_node=0,
        max_per_workload="20%",
        max_unavailable_per_workload=2,
        object_limits={"namespace": ObjectLimit(60.0, 4)},
        default_mode="EvictDirectly",
        evict_qps=2.5,
        evict_burst=4,
        eviction_policy="Delete",
        delete_options={"gracePeriodSeconds": 0},
        arbitrate=False,
        arbitration_interval_seconds=2.0,
    )


WRONG = {
    "maxMigratingPerNode": (-1, "must be greater than or equal to 0"),
    "maxMigratingGlobally": ("x", "must be an integer"),
    "maxMigratingPerWorkload": ("10", "must be a count, or a percentage"),
    "maxUnavailablePerWorkload": ("-5%", "must be a count, or a percentage"),
    "evictQPS": ("fast", "must be a number greater than 0"),
    "evictBurst": (0, "must be greater than or equal to 1"),
    "maxConcurrentReconciles": (0, "must be greater than or equal to 1"),
    "defaultJobMode": ("Later", 'supported values: "ReservationFirst", "EvictDirectly"'),
    "evictionPolicy": ("Shoot", 'supported values: "Eviction", "Delete", "SoftEviction"'),
    "defaultJobTTL": ("-1s", "must not be negative"),
    "namespaces": ({"include": ["a"], "exclude": ["b"]}, "only one of include and exclude"),
    "priorityThreshold.name": ({"name": "mine"}, "write the value of the priority class"),
    "objectLimiters.workload.duration": ({"workload": {"duration": "-1m"}}, "not be negative"),
    "objectLimiters.node": ({"node": {}}, 'unknown field "node"'),
    "labelSelector": ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, "Near"),
    "defaultDeleteOptions.gracePeriod": ({"gracePeriod": 5}, 'unknown field "gracePeriod"'),
    "arbitrationArgs.interval": ({"interval": "0s"}, "must be greater than 0"),
    "evictLocalStoragePods": ("yes", "must be true or false"),
    "kind": ("OtherArgs", "must be MigrationControllerArgs"),
    "evictBarePods": (True, 'unknown field "evictBarePods"'),
}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_field_is_named(field):
    value, message = WRONG[field]
    with pytest.raises(BadConfiguration) as wrong:
        read_args({field.split(".")[0]: value})
    assert str(wrong.value).startswith(f"{field}: ")
    assert message in str(wrong.value)


def test_all_errors_of_a_file_are_listed_with_their_place(loaded):
    with pytest.raises(BadConfiguration) as wrong:
        loaded(descheduling({"evictBurst": 0, "maxMigratingPerNode": -1}))
    at = "profiles[0].pluginConfig[1].args"
    lines = str(wrong.value).splitlines()[1:]
    assert [line.split(": ")[0].strip() for line in lines] == [
        f"{at}.maxMigratingPerNode", f"{at}.evictBurst",
    ]  # fmt: skip


def test_what_is_not_built_is_named():
    with pytest.raises(NotBuilt, match="skipEvictionGates: is not built"):
        read_args({"skipEvictionGates": ["BarePod"]})


def test_documents_that_are_too_many_or_of_another_version_are_refused(loaded):
    with pytest.raises(BadConfiguration, match="expected one DeschedulerConfiguration, found 2"):
        loaded(descheduling({}), descheduling({}))
    with pytest.raises(BadConfiguration, match=r"apiVersion: .*write descheduler/v1alpha2"):
        loaded(descheduling({}, apiVersion="descheduler/v1alpha1"))
    with pytest.raises(BadConfiguration, match="args: Invalid value: 7: must be an object"):
        loaded(descheduling(7))
