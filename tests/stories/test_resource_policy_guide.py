"""The transcripts of the page on resource policies are replayed."""

import pytest

from stories.transcript import ROOT, replay, running_cluster, steps_of

GUIDE = ROOT / "docs" / "resource-policies.md"


@pytest.mark.guide
@pytest.mark.kubectl
def test_P047_the_page_on_resource_policies_is_true(tmp_path):
    with running_cluster(tmp_path) as environment:
        assert replay(GUIDE, environment) > 15


def test_the_page_shows_every_example():
    used = " ".join(command for command, _ in steps_of(GUIDE))
    for path in (ROOT / "examples").glob("2?-*/*.yaml"):
        assert str(path.relative_to(ROOT)) in used
