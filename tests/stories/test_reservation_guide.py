"""The guide to reservations, replayed: Koordinator's own walk and what comes after it."""

import pytest
from transcript import ROOT, kubectl, replay, running_cluster, steps_of

GUIDE = ROOT / "docs" / "reservations.md"


@pytest.mark.kubectl
def test_the_guide_to_reservations_is_true(tmp_path):
    if kubectl() is None:
        pytest.skip("needs the real kubectl: put it on PATH, or run `make binaries` (needs Go)")
    with running_cluster(tmp_path) as environment:
        assert replay(GUIDE, environment) > 25


def test_the_guide_shows_every_example_it_speaks_of():
    used = " ".join(command for command, _ in steps_of(GUIDE))
    for path in (ROOT / "examples").glob("1?-reservation*/*.yaml"):
        assert str(path.relative_to(ROOT)) in used or str(path.parent.relative_to(ROOT)) in used
