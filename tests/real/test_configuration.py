"""The real kube-scheduler reports the same errors and defaults for configurations."""

import json
import re
import subprocess

import pytest
import yaml

from configuration.config_builders import config, mistakes, off, on, profile
from holdfast.api.strict_decode import decode_struct as read_struct
from holdfast.scheduling.configuration.document import KubeSchedulerConfiguration, PluginRef
from holdfast.scheduling.configuration.profiles import merge_plugins
from holdfast.scheduling.plugins import REGISTRY
from real.control_plane import program

pytestmark = pytest.mark.real


@pytest.fixture
def referee(tmp_path):
    """Return kube-scheduler's error for a configuration, and the configuration with defaults."""
    scheduler = program("kube-scheduler")
    if scheduler is None:
        pytest.fail("kube-scheduler not found: run `make binaries` (needs Go) first")

    def ask(raw, *, build=False):
        given, written = tmp_path / "given.yaml", tmp_path / "written.yaml"
        given.write_text(yaml.safe_dump(raw))
        write = () if build else ("--write-config-to", str(written))
        command = [scheduler, "--config", str(given), "--master", "http://127.0.0.1:1", *write]
        done = subprocess.run(
            [*command, "--secure-port", "0", "--authentication-skip-lookup"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        found = re.search(r'"command failed" err="((?:[^"\\]|\\.)*)"', done.stderr)
        complaint = json.loads(f'"{found[1]}"') if found else ""
        return complaint, yaml.safe_load(written.read_text()) if written.exists() else None

    return ask


CONSTRAINTS = [
    {"maxSkew": 0},
    {"maxSkew": 1, "topologyKey": "a b", "whenUnsatisfiable": "x", "labelSelector": {}},
    {"maxSkew": 1, "topologyKey": "a b", "whenUnsatisfiable": "x"},
]
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a b", "operator": "Exists"}]}]}
WISHES = [
    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}},
]
WRONG = {
    "process": config(
        parallelism=0, podInitialBackoffSeconds=5, podMaxBackoffSeconds=3,
        percentageOfNodesToScore=101, clientConnection={"burst": -1},
    ),
    "backoff": config(podInitialBackoffSeconds=0),
    "election": config(
        leaderElection={"leaseDuration": "5s", "resourceLock": "endpoints", "retryPeriod": "-1s"},
    ),
    "names": config({}, {"percentageOfNodesToScore": -1}),
    "removed": config(profile(filter=on("CinderLimits"), args={"EBSLimits": {}})),
    "preemption": config(profile(args={
        "DefaultPreemption": {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
    })),
    "affinity": config(profile(args={
        "InterPodAffinity": {"hardPodAffinityWeight": 101},
        "NodeAffinity": {"addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": TERMS,
            "preferredDuringSchedulingIgnoredDuringExecution": WISHES,
        }},
    })),
    "devices and volumes": config(profile(args={
        "DynamicResources": {"filterTimeout": "-1s", "bindingTimeout": "10ms"},
        "VolumeBinding": {"bindTimeoutSeconds": -1},
    })),
    "spread": config(profile(args={"PodTopologySpread": {"defaultConstraints": CONSTRAINTS}})),
    "defaulting": config(profile(args={"PodTopologySpread": {"defaultingType": "Mine"}})),
    "balance": config(profile(args={"NodeResourcesBalancedAllocation": {
        "resources": [{"name": "cpu", "weight": 2}, {"name": "cpu"}],
    }})),
    "extenders": config(extenders=[
        {"urlPrefix": "http://x", "prioritizeVerb": "p", "weight": 0, "bindVerb": "b",
         "managedResources": [{"name": "cpu"}, {"name": "a b"}, {"name": "example.com/x"}]},
        {"urlPrefix": "http://x", "bindVerb": "b",
         "managedResources": [{"name": "example.com/x"}]},
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_the_same_validation_errors(referee, name):
    complaint, _ = referee(WRONG[name])
    ours = [words for words in mistakes(WRONG[name]) if "not built" not in words]
    # kube-scheduler shows the path of the other profile, Holdfast the name of both.
    theirs = complaint.replace("Duplicate value: {}", 'Duplicate value: ""')
    for words in sorted(ours, key=len, reverse=True):
        assert words in theirs
        theirs = theirs.replace(words, "", 1)
    assert not theirs.strip("[], "), theirs


BUILT = {
    "unknown": profile(filter=on("Nope")),
    "no point": profile(score=on("NodeName")),
    "twice": profile(filter=on("NodePorts", "NodePorts")),
    "twice everywhere": profile(multiPoint=on("NodePorts", "NodePorts")),
    "no binder": profile(bind=off("*")),
    "no order": profile(queueSort=off("*")),
    "fit": profile(args={"NodeResourcesFit": {"scoringStrategy": {"type": "Mine"}}}),
}


@pytest.mark.parametrize("name", BUILT)
def test_the_same_error_when_the_profile_is_built(referee, name):
    complaint, _ = referee(config(BUILT[name]), build=True)
    (ours,) = mistakes(config(BUILT[name]))
    words = complaint.partition("creating profile for scheduler name default-scheduler: ")[2]
    words = words.removeprefix('initializing plugin "NodeResourcesFit": ')
    assert words
    assert words in ours


@pytest.mark.parametrize(
    "custom",
    [
        {},
        on(NodeAffinity=7),
        off("PodTopologySpread") | on("PodTopologySpread", ImageLocality=5),
        off("*") | on("PrioritySort", "DefaultBinder", "NodeName"),
        off("NodeName", "VolumeZone"),
    ],
)
def test_the_same_order_after_merging(referee, custom):
    _, stock = referee(config({}))
    known = {ref["name"] for ref in stock["profiles"][0]["plugins"]["multiPoint"]["enabled"]}
    raw = config(profile(multiPoint=custom))
    _, written = referee(raw)
    theirs = written["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    document = read_struct(KubeSchedulerConfiguration, raw, "", [])
    defaults = [PluginRef(e.name, e.weight) for e in REGISTRY if e.default and e.name in known]
    assert {ref.name for ref in defaults} == known
    ours = merge_plugins(defaults, document.profiles[0].plugins.multi_point)
    assert [ref.name for ref in ours] == [ref["name"] for ref in theirs]
    assert [ref.weight or 1 for ref in ours] == [ref.get("weight") or 1 for ref in theirs]
