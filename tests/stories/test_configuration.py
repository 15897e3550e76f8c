"""Configurations in a running cluster: profiles, backoff, a user's own plugin."""

import sys
from pathlib import Path

import pytest
import yaml

from holdfast.scheduling.configuration.catalog import Catalog
from holdfast.scheduling.configuration.file import load
from holdfast.scheduling.configuration.reading import read
from holdfast.scheduling.engine.profile import PluginEntry
from holdfast.scheduling.framework.per_node import PerNodePlugin, columnar
from holdfast.scheduling.plugins import REGISTRY
from holdfast.testing import a_node, a_pod
from holdfast.testing.harness import Harness

EXAMPLE = Path(__file__).parents[2] / "examples" / "40-own-plugin"


def most(name):
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu"}]}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    off = {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}
    return {"schedulerName": name, "pluginConfig": [fit], "plugins": {"score": off}}


def configured(*profiles, **fields):
    return read({"profiles": list(profiles)} | fields)


async def test_one_scheduler_runs_several_profiles(tmp_path):
    two = configured({"schedulerName": "spreading"}, most("packing"))
    async with Harness(tmp_path / "store", configuration=two) as cluster:
        await cluster.create(a_node("a", cpu="8"), a_node("b", cpu="8"))
        await cluster.create(a_pod("seed", cpu="2", schedulerName="packing"))
        seed = await cluster.node_of("seed")
        await cluster.create(a_pod("spread", cpu="1", schedulerName="spreading"))
        await cluster.create(a_pod("packed", cpu="1", schedulerName="packing"))
        await cluster.create(a_pod("nobodys"))
        assert await cluster.node_of("spread") != seed
        assert await cluster.node_of("packed") == seed
        assert await cluster.node_of("nobodys") == ""


class RaisingPlugin(PerNodePlugin):
    """A plugin that raises, and counts its calls."""

    name = "RaisingPlugin"
    asked = 0

    def fits(self, _pod, _node):
        self.asked += 1
        raise RuntimeError("stumbled")


async def test_the_configured_backoff_is_used(tmp_path):
    stumbles = RaisingPlugin()
    entry = PluginEntry(lambda _args: columnar(stumbles), "RaisingPlugin", default=False)
    on = {"multiPoint": {"enabled": [{"name": "RaisingPlugin"}]}}
    raw = {
        "profiles": [{"plugins": on}],
        "podInitialBackoffSeconds": 20,
        "podMaxBackoffSeconds": 30,
    }
    patient = read(raw, Catalog((*REGISTRY, entry)))
    async with Harness(tmp_path / "store", configuration=patient) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        asked = [stumbles.asked]
        for seconds in (15, 10, 20, 15):
            await cluster.advance(seconds)
            asked.append(stumbles.asked)
        assert asked == [1, 1, 2, 2, 3]
        assert "stumbled" in await cluster.why("p")


@pytest.fixture
def example(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield load(EXAMPLE / "config.yaml")
    sys.modules.pop("crowds", None)


async def test_the_example_plugin_works(tmp_path, example):
    """The example plugin keeps pods of an app apart and nodes of a rack empty."""
    objects = yaml.safe_load((EXAMPLE / "objects.yaml").read_text())["items"]
    async with Harness(tmp_path / "store", configuration=example) as cluster:
        for obj in objects:
            await cluster.create(obj)
        assert await cluster.node_of("web-0") == "a"
        assert await cluster.node_of("web-1") == "b"
        lonely = a_pod("lonely", nodeSelector={"rack": "r3"})
        await cluster.create(lonely)
        assert "1 node(s) were in a rack under repair" in await cluster.why("lonely")
    lines = (EXAMPLE / "crowds.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) < 20
