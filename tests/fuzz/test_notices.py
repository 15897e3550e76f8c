"""The fuzzer finds faults, and the requests that cause them."""

import pytest

from fuzz.bodies import as_json
from fuzz.campaign import replay
from fuzz.fuzzer import Probe
from fuzz.request_file import read_requests, shorten, write_requests
from holdfast.controllers.deployment.controller import DeploymentController
from holdfast.server import tables
from holdfast.server.non_resource_paths import NonResourcePaths
from holdfast.testing import a_deployment

JSON = {"content-type": "application/json"}
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DEPLOYMENT = Probe("POST", DEPLOYMENTS, {}, JSON, as_json(a_deployment("web")))


def broken(*_args, **_keywords):
    raise ZeroDivisionError("a defect")


async def whats(directory, *probes):
    report = await replay(directory, list(probes))
    return [fault.what for fault in report.faults.values()]


async def test_a_correct_cluster_has_no_faults(tmp_path):
    assert await whats(tmp_path, DEPLOYMENT, Probe("GET", "/version")) == []


async def test_an_internal_error_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(NonResourcePaths, "_listed", broken)
    [what] = await whats(tmp_path, Probe("GET", "/"))
    assert what == "GET /: answer of 500: Internal error occurred: a defect"


async def test_a_failing_controller_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(DeploymentController, "reconcile", broken)
    found = await whats(tmp_path, DEPLOYMENT)
    assert found[0].startswith("a component failed: deployment-controller: default/web failed")
    assert found[-1] == "a plain Deployment has 0 of 2 replicas"


async def test_a_failing_list_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_row", broken)
    found = await whats(tmp_path)
    assert any(what.startswith("list of ") and "as=Table" in what for what in found)


@pytest.mark.parametrize("needed", [{7}, {2, 7}, {0, 3, 7}])
def test_a_sequence_of_requests_is_shortened(needed):
    probes = [Probe("GET", f"/{number}") for number in range(8)]

    def fails(some):
        return needed <= {int(probe.path[1:]) for probe in some}

    found = shorten(probes, fails)
    assert {int(probe.path[1:]) for probe in found} == needed


def test_a_file_of_requests_is_read_as_written(tmp_path):
    probes = [
        Probe("GET", "/a", {"q": "é"}),
        Probe("POST", "/b", {}, {"content-type": "x"}, b"\xff\x00"),
        Probe("PUT", "/c", {}, {}, '{"a":"日本"}'.encode()),
    ]
    write_requests(tmp_path / "trail.jsonl", probes)
    assert read_requests(tmp_path / "trail.jsonl") == probes
