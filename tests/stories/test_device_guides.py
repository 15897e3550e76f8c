"""The transcripts of the pages on devices and extended resources are replayed on one cluster."""

import pytest

from stories.transcript import ROOT, replay, running_cluster, steps_of

PAGES = [ROOT / "docs" / name for name in ("devices.md", "extended-resources.md")]


@pytest.mark.guide
@pytest.mark.kubectl
def test_D053_D056_D064_D076_the_pages_on_devices_are_true(tmp_path):
    with running_cluster(tmp_path) as environment:
        assert sum(replay(page, environment) for page in PAGES) > 25


def test_the_pages_show_every_example():
    used = " ".join(command for page in PAGES for command, _ in steps_of(page))
    for path in (ROOT / "examples").glob("3[23]-*/*.yaml"):
        assert str(path.relative_to(ROOT)) in used
