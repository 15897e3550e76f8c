"""The transcript of the page on the descheduler is replayed, and its file is valid."""

import re

import pytest
import yaml

from holdfast.controllers.descheduler.configuration import read
from holdfast.processes.descheduler import load_settings
from stories.transcript import ROOT, replay, running_cluster, steps_of

PAGE = ROOT / "docs" / "descheduler.md"
EXAMPLE = ROOT / "examples" / "73-descheduler"


@pytest.mark.guide
@pytest.mark.kubectl
def test_the_page_on_the_descheduler_is_true(tmp_path):
    with running_cluster(tmp_path) as environment:
        assert replay(PAGE, environment) > 8


def test_the_page_shows_every_example():
    used = " ".join(command for command, _ in steps_of(PAGE))
    for path in EXAMPLE.glob("*.yaml"):
        assert str(path.relative_to(ROOT)) in used


def test_the_file_on_the_page_and_the_example_are_valid():
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
    assert read(yaml.safe_load(text)).max_per_node == 5
    policies = load_settings(EXAMPLE / "descheduler.yaml").configuration.profiles[0].policies
    assert len(policies) == 2
