"""``holdfast explain`` with a KubeSchedulerConfiguration: plugins, weights, arguments."""

import json

import yaml
from typer.testing import CliRunner

from cli.explain_requests import ask, node_of, verdicts
from holdfast.cli.app import app
from holdfast.scheduling.configuration.reading import read
from holdfast.testing import a_node, a_pod

NODES = [a_node("empty", cpu="4", memory="8Gi"), a_node("used", cpu="4", memory="8Gi")]
USED = a_pod("s", cpu="2", memory="4Gi", node="used")
POD = a_pod("p", cpu="1", memory="1Gi")


def profile(name=None, **fields):
    sets = {k: v for k, v in fields.items() if k != "pluginConfig"}
    made = {"plugins": sets} | {k: v for k, v in fields.items() if k == "pluginConfig"}
    return made | ({"schedulerName": name} if name else {})


def config(*profiles):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": list(profiles),
    }  # fmt: skip


def named(*names, **weights):
    return [{"name": n} for n in names] + [{"name": n, "weight": w} for n, w in weights.items()]


def decided(*profiles, objects=(), **more):
    return ask(*NODES, USED, *objects, POD, config=config(*profiles), **more)


MOST = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}


def test_arguments_reach_the_plugin():
    assert decided()["best"] == ["empty"]
    packing = profile(
        pluginConfig=[
            {"name": "NodeResourcesFit", "args": {"kind": "NodeResourcesFitArgs", **MOST}}
        ],
        score={"disabled": named("NodeResourcesBalancedAllocation")},
    )  # fmt: skip
    answer = decided(packing)
    assert answer["best"] == ["used"]
    assert node_of(answer, "used")["scores"]["NodeResourcesFit"]["raw"] == 75


def test_weights_of_the_score_set_and_of_multi_point_apply():
    by_score = decided(profile(score={"enabled": named(TaintToleration=7)}))
    assert node_of(by_score, "empty")["scores"]["TaintToleration"]["weighted"] == 700
    by_point = decided(profile(multiPoint={"enabled": named(NodeResourcesFit=9)}))
    fit = node_of(by_point, "empty")["scores"]["NodeResourcesFit"]
    assert fit["weighted"] == 9 * fit["normalized"]
    unsaid = decided(profile(multiPoint={"enabled": named("TaintToleration")}))
    assert node_of(unsaid, "empty")["scores"]["TaintToleration"]["weighted"] == 100


def test_a_plugin_can_be_disabled_everywhere_or_at_one_point():
    tainted = a_node("tainted", taints=[{"key": "k", "effect": "NoSchedule"}])
    off = decided(profile(multiPoint={"disabled": named("TaintToleration")}), objects=[tainted])
    assert node_of(off, "tainted")["feasible"]
    assert "TaintToleration" not in node_of(off, "tainted")["scores"]
    unfiltered = decided(profile(filter={"disabled": named("TaintToleration")}), objects=[tainted])
    assert node_of(unfiltered, "tainted")["feasible"]
    assert "TaintToleration" in node_of(unfiltered, "tainted")["scores"]
    unscored = decided(profile(score={"disabled": named("TaintToleration")}), objects=[tainted])
    assert verdicts(unscored)["tainted"][0] == "TaintToleration"
    assert "TaintToleration" not in node_of(unscored, "empty")["scores"]


def test_a_star_disables_all_plugins_that_are_not_enabled():
    only = decided(profile(score={"disabled": named("*"), "enabled": named(NodeResourcesFit=2)}))
    assert list(node_of(only, "empty")["scores"]) == ["NodeResourcesFit"]
    few = named("PrioritySort", "NodeUnschedulable", "DefaultBinder")
    answer = decided(
        profile(multiPoint={"disabled": named("*"), "enabled": few}),
        objects=[a_pod("big", cpu="9")], pod="default/big",
    )  # fmt: skip
    assert answer["best"] == ["empty", "used"]


def test_preemption_can_be_disabled():
    high = {**POD, "spec": {**POD["spec"], "priority": 5}}
    full = [a_node("n", cpu="1"), a_pod("v", cpu="1", node="n"), high]
    off = config(profile(postFilter={"disabled": named("DefaultPreemption")}))
    assert ask(*full, preempt=True)["preemption"]["victims"] == ["default/v"]
    assert ask(*full, preempt=True, config=off)["preemption"]["victims"] == []


def test_each_pod_is_scheduled_by_the_profile_it_names():
    packing = profile("packing", pluginConfig=[{"name": "NodeResourcesFit", "args": MOST}])
    both = config(profile("default-scheduler"), packing)
    pod = {**POD, "spec": {**POD["spec"], "schedulerName": "packing"}}
    answer = ask(*NODES, USED, pod, config=both)
    assert node_of(answer, "used")["scores"]["NodeResourcesFit"]["raw"] == 75
    other = {**POD, "spec": {**POD["spec"], "schedulerName": "mine"}}
    assert ask(*NODES, other, config=both)["error"] == (
        'pod "default/p": spec.schedulerName: no profile is named "mine"; there are '
        "default-scheduler, packing"
    )


def test_without_profiles_the_built_in_ones_are_used():
    plain = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    leading = plain | {"leaderElection": {"leaderElect": False}, "percentageOfNodesToScore": 100}
    assert sorted(read(leading).profiles) == ["default-scheduler", "koord-scheduler"]


def test_the_configuration_can_be_a_file(tmp_path):
    snapshot, settings = tmp_path / "objects.yaml", tmp_path / "config.yaml"
    snapshot.write_text(yaml.safe_dump_all([*NODES, USED, POD]))

    def explain():
        command = ["explain", "--snapshot", str(snapshot), "--pod", "p", "--config", str(settings)]
        return CliRunner().invoke(app, [*command, "-o", "json"])

    settings.write_text(yaml.safe_dump(config(profile(score={"disabled": named("*")}))))
    assert json.loads(explain().stdout)["best"] == ["empty", "used"]
    settings.write_text(yaml.safe_dump(config(profile(multiPoint={"enabled": named("Nope")}))))
    refused = explain()
    assert refused.exit_code == 2
    assert 'plugin "Nope" does not exist' in refused.stderr
    settings.write_text(yaml.safe_dump_all([config(), config()]))
    assert "expected one document" in explain().stderr
