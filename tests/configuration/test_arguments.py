"""Arguments of plugins: validation, defaults, and how they reach the plugin."""

import pytest

from configuration.config_builders import config, mistakes, off, profile, wrong_args
from holdfast.controllers.profile_settings import controller_settings
from holdfast.scheduling.configuration.reading import read

SHAPE = "scoringStrategy.requestedToCapacityRatio"


@pytest.mark.parametrize(
    ("plugin", "args", "words"),
    [
        ("DefaultPreemption", {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1},
         ["minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
          "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)"]),
        ("InterPodAffinity", {"ignorePreferredTermsOfExistingPods": 1, "x": 1},
         ["ignorePreferredTermsOfExistingPods: Invalid value: 1: must be true or false",
          'x: unknown field "x"']),
        ("NodeResourcesBalancedAllocation",
         {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu", "weight": 0}]},
         ["resources[0].weight: Invalid value: 2: must be 1",
          'resources[1].name: Duplicate value: "cpu"']),
        ("PodTopologySpread",
         {"defaultingType": "List", "defaultConstraints": [
             {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "Never"},
             {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Never", "labelSelector": {}},
             {}]},
         ["defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
          'defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never": supported values: '
          '"DoNotSchedule", "ScheduleAnyway"',
          'defaultConstraints[1].whenUnsatisfiable: Unsupported value: "Never": supported values: '
          '"DoNotSchedule", "ScheduleAnyway"',
          "defaultConstraints[1].labelSelector: Forbidden: constraint must not define a selector, "
          "as they deduced for each pod",
          'defaultConstraints[1]: Duplicate value: "{z, Never}"',
          "defaultConstraints[2].maxSkew: Invalid value: 0: not in valid range (0, inf)",
          "defaultConstraints[2].topologyKey: Required value: can not be empty",
          "defaultConstraints[2].whenUnsatisfiable: Required value: can not be empty"]),
        ("PodTopologySpread", {"defaultingType": "Mine"},
         ['defaultingType: Unsupported value: "Mine": supported values: "System", "List"']),
        ("PodTopologySpread", {"defaultConstraints": [
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
         ['defaultingType: Invalid value: "System": when .defaultConstraints are not empty']),
        ("NodeAffinity", {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Is"}]}]}}},
         ["addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
          '.matchExpressions[0].operator: Unsupported value: "Is": supported values']),
        ("VolumeBinding", {"bindTimeoutSeconds": -1, "shape": []},
         ["bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a "
          "negative value",
          "shape: Invalid value: []: unexpected field `shape`, remove it or turn on the feature "
          "gate StorageCapacityScoring"]),
        ("DynamicResources", {"filterTimeout": "-1s", "bindingTimeout": "10ms"},
         ['filterTimeout: Invalid value: "-1s": must be zero or positive',
          'bindingTimeout: Invalid value: "10ms": must be at least 1 second']),
        ("DynamicResources", {"preemptDevices": "yes", "filterTimeouts": "1s"},
         ['preemptDevices: Invalid value: "yes": must be true or false',
          'filterTimeouts: unknown field "filterTimeouts"']),
        ("NodeResourcesFit", {"scoringStrategy": {"resources": [{"Name": "cpu"}]}},
         ['scoringStrategy.resources[0].Name: unknown field "Name"',
          'scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated", '
          '"MostAllocated", "RequestedToCapacityRatio"']),
        ("NodeResourcesFit",
         {"ignoredResources": ["a b"], "ignoredResourceGroups": ["e.com/x"],
          "scoringStrategy": {"type": "MostAllocated", "requestedToCapacityRatio": {},
                              "resources": [{"name": "cpu", "weight": 101}]}},
         ['ignoredResources[0]: Invalid value: "a b": name part must consist of',
          'ignoredResourceGroups[0]: Invalid value: "e.com/x": resource group name can\'t contain',
          "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in "
          "valid range (0, 100]",
          f"{SHAPE}: Forbidden: must be nil when type is not RequestedToCapacityRatio"]),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
         [f"{SHAPE}: Required value: must be specified when type is RequestedToCapacityRatio"]),
        ("NodeResourcesFit", {"scoringStrategy": {
            "type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {}}},
         [f"{SHAPE}.shape: Required value: at least one point must be specified"]),
        ("NodeResourcesFit", {"scoringStrategy": {
            "type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [
                {"utilization": 50, "score": 11}, {"utilization": 50}, {"utilization": 101}]}}},
         [f"{SHAPE}.shape[1].utilization: Invalid value: 50: values must be sorted in increasing",
          f"{SHAPE}.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
          f"{SHAPE}.shape[2].utilization: Invalid value: 101: not in valid range [0, 100]"]),
        ("NodeName", {"x": 1}, ['x: unknown field "x": NodeName takes no arguments']),
        ("resourcepolicy",
         {"order": "Loose", "missingMatchLabelKey": "Ask", "drainExcess": "yes",
          "reservations": "Last", "nonsense": 1},
         ['drainExcess: Invalid value: "yes": must be true or false',
          'nonsense: unknown field "nonsense"',
          'order: Unsupported value: "Loose": supported values: "Strict", "Score"',
          'missingMatchLabelKey: Unsupported value: "Ask": supported values: "Ignore", "Reject"',
          'reservations: Unsupported value: "Last": supported values: "Ties", "First"']),
        ("Reservation",
         {"minCandidateNodesPercentage": 101, "gcDurationSeconds": -1, "enablePreemption": "yes",
          "ignoredResources": ["cpu"], "ignoredResourceGroups": ["a/b", "kubernetes.io"]},
         ['enablePreemption: Invalid value: "yes": must be true or false',
          "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
          "gcDurationSeconds: Invalid value: -1: not in valid range [0, inf)",
          'ignoredResources[0]: Invalid value: "cpu": is an invalid extended resource name',
          'ignoredResourceGroups[0]: Invalid value: "a/b": resource group name can\'t contain',
          'ignoredResourceGroups[1]: Invalid value: "kubernetes.io": is not a group']),
    ],
)  # fmt: skip
def test_invalid_arguments_are_reported(plugin, args, words):
    errors = wrong_args(plugin, **args)
    assert len(errors) == len(words), errors
    assert all(one.startswith(start) for one, start in zip(errors, words, strict=True)), errors


def test_a_weight_of_zero_means_the_default():
    zero = [{"name": "cpu", "weight": 0}, {"name": "memory"}]
    assert wrong_args("NodeResourcesBalancedAllocation", resources=zero) == []
    assert (
        wrong_args("NodeResourcesFit", scoringStrategy={"type": "MostAllocated", "resources": zero})
        == []
    )


def test_arguments_may_have_api_version_and_kind():
    def errors(plugin, **head):
        return wrong_args(plugin, **head)

    group = "kubescheduler.config.k8s.io"
    assert errors("NodeAffinity", apiVersion=f"{group}/v1", kind="NodeAffinityArgs") == []
    assert errors("DefaultPreemption", apiVersion=f"{group}/v1", kind="InterPodAffinityArgs") == [
        'profiles[0].pluginConfig[0].args: Invalid value: "InterPodAffinityArgs": has to match '
        "plugin args: args for plugin DefaultPreemption were not of type "
        f"DefaultPreemptionArgs.{group}, got InterPodAffinityArgs.{group}"
    ]
    old = f"{group}/v1beta3"
    assert errors("NodeAffinity", apiVersion=old, kind="NodeAffinityArgs") == [
        f'apiVersion: Invalid value: "{old}": no kind "NodeAffinityArgs" is registered for it; '
        f"write {group}/v1"
    ]
    assert errors("Reservation", apiVersion=old, kind="ReservationArgs") == []


def test_arguments_of_disabled_plugins_are_validated():
    off = profile(
        multiPoint={"disabled": [{"name": "InterPodAffinity"}]},
        args={"InterPodAffinity": {"hardPodAffinityWeight": 101}},
    )
    assert len(mistakes(config(off))) == 1


def test_arguments_of_unknown_plugins_are_a_warning():
    found = read(config(profile(args={"Unknown": {"x": 1}})))
    assert found.warnings == (
        "profiles[0].pluginConfig[0]: plugin Unknown is not enabled: its args are ignored",
    )


def test_arguments_of_a_plugin_may_occur_only_once():
    twice = {"pluginConfig": [{"name": "NodeName"}, {"name": "NodeName"}, {"name": "EBSLimits"}]}
    assert mistakes(config(twice)) == [
        'profiles[0].pluginConfig[1]: Duplicate value: "NodeName"',
        'profiles[0].pluginConfig[2]: Invalid value: "EBSLimits": was invalid in version "v1" '
        '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")',
    ]


@pytest.mark.parametrize("on", (True, False))
def test_the_first_profile_with_a_plugin_decides_about_its_controller(on):
    def args(value):
        return {
            "resourcepolicy": {"drainExcess": value},
            "ClassicDynamicResources": {"deallocateUnused": value},
        }

    first, second = profile("other", args=args(on)), profile("koord-scheduler", args=args(not on))
    found = controller_settings(read(config(first, second)))
    assert found.resource_policies.drain_excess == on
    assert found.classic_claims.deallocate_unused == on


def test_arguments_reach_the_reservation_plugin():
    given = {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "ReservationArgs",
        "controllerWorkers": 2, "gcDurationSeconds": 3600, "gcIntervalSeconds": 0,
        "disableGarbageCollection": True, "resyncIntervalSeconds": 30,
        "minCandidateNodesPercentage": 5, "minCandidateNodesAbsolute": 10,
        "enablePreemption": True, "ignoredResources": ["e.com/x"],
        "ignoredResourceGroups": ["g.io"],
        "preAllocationConfig": {"clusterLabelKey": "k"},
        "reservationSelectorIndex": {"enable": True, "keys": ["a"], "keyPrefixes": ["b"]},
    }  # fmt: skip
    found = read(config(profile("koord-scheduler", args={"Reservation": given})))
    result = controller_settings(found).reservations
    assert (
        result.workers,
        result.gc_enabled,
        result.gc_after_seconds,
        result.gc_interval_seconds,
    ) == (
        2,
        False,
        3600,
        60,
    )
    args = found.profiles["koord-scheduler"].plugin("Reservation").args
    assert args.enable_preemption
    assert args.ignores("e.com/x") and args.ignores("g.io/y") and not args.ignores("cpu")


def test_preemption_by_reservations_without_default_preemption_is_a_warning():
    none = {"postFilter": off("DefaultPreemption")}
    asks = {"Reservation": {"enablePreemption": True}}
    words = "enablePreemption of Reservation has no effect without DefaultPreemption"
    (result,) = read(config(profile(args=asks, **none))).warnings
    assert words in result
    assert not read(config(profile(args=asks))).warnings
    assert not read(config(profile(**none))).warnings
