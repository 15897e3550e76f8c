"""The transcripts of the guide to migration are replayed."""

import pytest

from stories.transcript import ROOT, replay, running_cluster

GUIDE = ROOT / "docs" / "migration.md"
EXAMPLE = ROOT / "examples" / "72-migration"

pytestmark = [pytest.mark.guide, pytest.mark.kubectl]


def test_the_guide_to_migration_works(tmp_path):
    config = str((EXAMPLE / "config.yaml").relative_to(ROOT))
    with running_cluster(tmp_path, "--nodes", "0", "--config", config) as environment:
        assert replay(GUIDE, environment) > 20


def test_the_guide_names_every_example():
    text = GUIDE.read_text()
    for path in EXAMPLE.glob("*.yaml"):
        assert str(path.relative_to(ROOT)) in text
