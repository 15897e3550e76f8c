"""Arguments of Koordinator's plugins NodeNUMAResource and DeviceShare."""

import json

import pytest

from configuration.config_builders import config, mistakes, off, on, profile, wrong_args
from device_share.objects import a_device_object, a_gpu_node, a_gpu_pod, devices_of
from holdfast.api import koordinator_names as names
from holdfast.scheduling.configuration.reading import read
from holdfast.testing import a_node
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod, a_topology

BOTH = ("NodeNUMAResource", "DeviceShare")
TYPES = '"LeastAllocated", "MostAllocated"'
PACK = {"type": "MostAllocated"}


@pytest.mark.parametrize(
    ("plugin", "args", "words"),
    [
        ("NodeNUMAResource", {"defaultCPUBindPolicy": "Whole", "x": 1},
         ['x: unknown field "x"',
          'defaultCPUBindPolicy: Invalid value: "Whole": must specified CPU bind policy FullPCPUs '
          "or SpreadByPCPUs"]),
        ("NodeNUMAResource",
         {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]},
          "numaScoringStrategy": {"type": "Best"}},
         ["scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in "
          "valid range (0, 100]",
          f'numaScoringStrategy.type: Unsupported value: "Best": supported values: {TYPES}']),
        ("NodeNUMAResource", {"numaScoringStrategy": {"resources": "cpu"}},
         ['numaScoringStrategy.resources: Invalid value: "cpu": must be a list']),
        ("DeviceShare",
         {"scoringStrategy": {"type": "Best", "resources": [{"name": "g", "weight": "many"}]},
          "gpuShareUnsupportedModels": [{"vendor": "v"}]},
         ['scoringStrategy.resources[0].weight: Invalid value: "many": must be an integer',
          f'scoringStrategy.type: Unsupported value: "Best": supported values: {TYPES}',
          "gpuShareUnsupportedModels[0].model: Required value"]),
        ("DeviceShare", {"disableDeviceNUMATopologyAlignment": "no"},
         ['disableDeviceNUMATopologyAlignment: Invalid value: "no": must be true or false']),
    ],
)  # fmt: skip
def test_errors_name_every_wrong_field(plugin, args, words):
    assert wrong_args(plugin, **args) == words


@pytest.mark.parametrize("plugin", BOTH)
def test_versions_and_kinds_of_koordinator_are_accepted(plugin):
    kind = f"{plugin}Args"
    for version in ("v1", "v1beta2", "v1beta3"):
        group = f"kubescheduler.config.k8s.io/{version}"
        assert wrong_args(plugin, apiVersion=group, kind=kind) == []
    (wrong,) = wrong_args(plugin, kind="ReservationArgs", apiVersion=group)
    assert f"args for plugin {plugin} were not of type {kind}" in wrong


def test_the_plugins_can_be_enabled_and_disabled_and_other_ones_are_not_built():
    assert mistakes(config(profile(multiPoint=on(*BOTH)))) == []
    found = read(config(profile(multiPoint=off(*BOTH)))).profiles["default-scheduler"]
    assert not {plugin.name for plugin in found.plugins} & set(BOTH)
    assert mistakes(config(profile(multiPoint=on("Coscheduling")))) == [
        "profiles[0].plugins.multiPoint.enabled[0]: plugin Coscheduling is not built; leave it out"
    ]


async def test_the_strategies_decide_which_cpus_and_gpus_pods_get(tmp_path):
    packing = read(
        config(
            profile(
                args={
                    "NodeNUMAResource": {
                        "numaScoringStrategy": PACK,
                        "defaultCPUBindPolicy": "SpreadByPCPUs",
                    },
                    "DeviceShare": {"scoringStrategy": PACK},
                }
            )
        )
    )
    async with Harness(tmp_path / "store", configuration=packing) as cluster:
        await cluster.create(a_topology(), a_gpu_node(), a_device_object())
        await cluster.create(a_bound_pod("p", "2"), a_bound_pod("q", "2"))
        await cluster.create(a_gpu_pod("g", 30), a_gpu_pod("h", 30))
        status = [(await cluster.pod(name)).metadata.annotations for name in ("p", "q")]
        assert [json.loads(one[names.RESOURCE_STATUS])["cpuset"] for one in status] == [
            "0,2", "1,3",
        ]  # fmt: skip
        assert await devices_of(cluster, "g") == await devices_of(cluster, "h")


async def test_without_a_default_bind_policy_only_pods_that_name_one_are_bound(tmp_path):
    unbound = read(config(profile(args={"NodeNUMAResource": {"defaultCPUBindPolicy": ""}})))
    async with Harness(tmp_path / "store", configuration=unbound) as cluster:
        await cluster.create(a_topology(), a_node("n", cpu="16"))
        await cluster.create(
            a_bound_pod("p", "2"),
            a_bound_pod("q", "2", spec={"requiredCPUBindPolicy": "FullPCPUs"}),
        )
        assert not (await cluster.pod("p")).metadata.annotations.get(names.RESOURCE_STATUS)
        assert (await cluster.pod("q")).metadata.annotations[names.RESOURCE_STATUS]
