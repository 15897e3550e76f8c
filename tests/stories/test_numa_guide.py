"""The transcripts of the page on CPU sets, NUMA nodes and shared GPUs are replayed."""

import re

import pytest

from stories.transcript import ROOT, replay, running_cluster, steps_of

PAGE = ROOT / "docs" / "numa-and-gpus.md"


@pytest.mark.guide
@pytest.mark.kubectl
@pytest.mark.timeout(300)  # a process for each of more than 40 commands
def test_the_page_on_cpu_sets_and_shared_gpus_is_true(tmp_path):
    started = re.search(r"^    holdfast up (.*)$", PAGE.read_text(), re.M)
    with running_cluster(tmp_path, *started[1].split()) as environment:
        assert replay(PAGE, environment) > 35


def test_the_page_shows_every_example():
    used = " ".join(command for command, _ in steps_of(PAGE))
    for path in (ROOT / "examples").glob("7[01]-*/*.yaml"):
        assert str(path.relative_to(ROOT)) in used
