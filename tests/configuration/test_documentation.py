"""The code in the documentation runs, and its configuration files are valid."""

import re
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.scheduling.configuration.file import load
from holdfast.scheduling.configuration.reading import read
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.per_node import columnar
from holdfast.scheduling.framework.plugin import Scope
from holdfast.scheduling.framework.points import Point, has_point
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import FakeCluster, a_node, a_pod, check_plugin
from holdfast.testing.harness import Harness

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "40-own-plugin"


def blocks(page, language):
    text = (ROOT / page).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def defined(source, name):
    space = {}
    exec(compile(source, "documentation", "exec"), space)
    return space[name]


@pytest.fixture
def pages(monkeypatch):
    """Return the code blocks of docs/plugins.md: per node, reads, columns, permit, the test."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield blocks("docs/plugins.md", "python")
    sys.modules.pop("crowds", None)


def test_the_page_and_the_example_are_the_same(pages):
    own = (EXAMPLE / "crowds.py").read_text()
    assert own.partition('"""\n\n')[2] == pages[0]
    assert len([line for line in own.splitlines() if line.strip()]) < 20
    assert (EXAMPLE / "config.yaml").read_text() in blocks("docs/plugins.md", "yaml")


def test_cached_answers_equal_new_ones(pages):
    kind = defined(pages[0] + "\n" + pages[1], "AvoidCrowds")
    assert columnar(kind({})).traits.scope is Scope.ROW
    check_plugin(lambda: kind({"closedRacks": ["r3"]}))


def test_the_columnar_plugin_equals_the_per_node_plugin(pages):
    kind = defined(pages[2], "ClosedRacks")
    check_plugin(lambda: kind({"closedRacks": ["r3"]}))
    plugin = kind({"closedRacks": ["r3"]})
    assert has_point(plugin, Point.FILTER)
    plugins = (*default_profiles()["default-scheduler"].plugins, plugin)
    racks = [a_node(f"n{i}", labels={"rack": f"r{i}"}) for i in (1, 3)]
    cluster = FakeCluster(*racks, profile=Profile("p", plugins))
    assert cluster.place(a_pod("p")) == "n1"
    pinned = a_pod("q", nodeSelector={"rack": "r3"})
    assert "1 node(s) were in a rack under repair" in cluster.why(pinned)


async def test_pods_of_a_team_are_permitted_together(pages, tmp_path):
    plugin = defined(pages[3], "AllOrNone")({"size": 2})
    stock = default_profiles()["default-scheduler"]
    profile = Profile(stock.name, (*stock.plugins, plugin), stock.weights)
    async with Harness(tmp_path / "store", profiles={stock.name: profile}) as cluster:
        await cluster.create(a_node("n"), a_pod("alone"), a_pod("a", labels={"team": "x"}))
        assert [await cluster.node_of(name) for name in ("alone", "a")] == ["n", ""]
        await cluster.create(a_pod("b", labels={"team": "x"}))
        assert [await cluster.node_of(name) for name in "ab"] == ["n", "n"]


def test_the_documented_test_passes(pages):
    defined(pages[4], "test_it_conforms")()


def test_the_example_works_with_explain(pages):
    command = ["explain", "--config", str(EXAMPLE / "config.yaml"), "--pod", "default/web-1"]
    result = CliRunner().invoke(app, [*command, "--snapshot", str(EXAMPLE / "objects.yaml")])
    assert result.exit_code == 0, result.output
    assert "default/web-1: fits on b" in result.stdout
    assert "node(s) were in a rack under repair  [AvoidCrowds]: c" in result.stdout


def test_the_files_of_the_configuration_page_are_valid(pages, tmp_path):
    (shown,) = blocks("docs/configuration.md", "yaml")
    found = read(yaml.safe_load(shown))
    assert list(found.profiles) == ["default-scheduler", "packing"]
    assert found.backoff == (1.0, 30.0)
    assert not found.warnings
    (tmp_path / "c.yaml").write_text(shown)
    assert load(tmp_path / "c.yaml").leader_election.resource_name == "holdfast"
