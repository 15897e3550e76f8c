"""The transcripts of the guides to reservations are replayed."""

import pytest

from stories.transcript import ROOT, replay, running_cluster, steps_of

GUIDE = ROOT / "docs" / "reservations-tutorial.md"
PRE_ALLOCATION = ROOT / "docs" / "reservations-pre-allocation.md"
CONFIG = "examples/13-pre-allocation/scheduler.yaml"

pytestmark = [pytest.mark.guide, pytest.mark.kubectl]


def test_the_guide_to_reservations_works(tmp_path):
    with running_cluster(tmp_path) as environment:
        assert replay(GUIDE, environment) > 25


def test_the_guide_to_pre_allocation_works(tmp_path):
    with running_cluster(tmp_path, "--nodes", "0", "--config", CONFIG) as environment:
        assert replay(PRE_ALLOCATION, environment) > 15


def test_the_guides_show_every_example():
    used = " ".join(command for guide in (GUIDE, PRE_ALLOCATION) for command, _ in steps_of(guide))
    used += CONFIG
    for path in (ROOT / "examples").glob("1?-*/*.yaml"):
        assert str(path.relative_to(ROOT)) in used or str(path.parent.relative_to(ROOT)) in used
