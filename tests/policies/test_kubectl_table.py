"""What kubectl shows of resource policies in a running cluster."""

import json
import time

import pytest

from stories.transcript import run, running_cluster

pytestmark = [pytest.mark.long, pytest.mark.kubectl]


def until(question, wanted, seconds=20):
    """Ask until the answer is the wanted one; return the last answer."""
    deadline = time.monotonic() + seconds
    while (found := question()) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)  # a process is started for every try
    return found


def test_P047_kubectl_shows_strategy_pods_of_each_unit_and_headroom(tmp_path):
    with running_cluster(tmp_path, "--nodes", "5") as env:

        def kubectl(command):
            return run(f"kubectl {command}", env)

        def rows(options=""):
            lines = kubectl(f"get resourcepolicies {options}").splitlines()
            return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines]

        def shown():
            return rows()[1][1:-1]

        def conditions():
            found = json.loads(kubectl("get rsp on-demand-first -o json"))["status"]
            return {c["type"]: c["status"] for c in found["conditions"]}

        for number, tier in enumerate(("on-demand", "on-demand", "spot", "spot"), 1):
            kubectl(f"label node node-000{number} tier={tier}")
        kubectl("create -f examples/20-resource-policy/policy.yaml")
        assert until(shown, wanted := ["prefer", "on-demand 0/2, spot 0/3", "5"]) == wanted
        assert rows()[0] == ["NAME", "STRATEGY", "PODS", "HEADROOM", "AGE"]
        assert rows("-o wide")[0] == ["NAME", "STRATEGY", "PODS", "HEADROOM", "READY", "AGE"]
        kubectl("create -f examples/20-resource-policy/shop.yaml")
        assert until(shown, wanted := ["prefer", "on-demand 2/2, spot 1/3", "2"]) == wanted
        kubectl("scale deployment shop --replicas 6")
        assert until(shown, wanted := ["prefer", "on-demand 2/2, spot 3/3", "0"]) == wanted
        assert until(conditions, wanted := {
            "Ready": "True", "Conflicting": "False", "OverCapacity": "False",
            "OverlappingUnits": "False",
        }) == wanted  # fmt: skip
        kubectl("label node node-0005 tier=on-demand")
        assert until(shown, wanted := ["prefer", "on-demand 3/2, spot 3/3", "0"]) == wanted
        assert until(lambda: conditions()["OverCapacity"], "True") == "True"
