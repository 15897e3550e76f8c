"""On random snapshots Holdfast and kube-scheduler's code explain a pod in the same way."""

import pytest

from real.differential.families import FAMILIES, make_case
from real.differential.referee import ask_both, referee
from real.differential.report import compare

pytestmark = pytest.mark.real
CASES = 210
"""Cases per family, always the same ones; `make differential` generates others."""
MORE_CASES = {"device_themes": 400, "extended_resources": 300}


@pytest.fixture(scope="module", autouse=True)
def _built():
    if referee() is None:
        pytest.fail("the referee is not built: run `make binaries` (needs Go) first")


@pytest.mark.parametrize("family", FAMILIES)
def test_decisions_equal_those_of_kube_scheduler(family):
    report = compare([make_case(family, seed) for seed in range(MORE_CASES.get(family, CASES))])
    assert not report, report.text()


def test_a_case_depends_only_on_its_number():
    for family in FAMILIES:
        assert make_case(family, 7).line == make_case(family, 7).line


def test_a_difference_is_found(monkeypatch):
    """The comparison can fail: it finds that Holdfast was given nodes without taints."""
    case = next(c for c in (make_case("demands", s) for s in range(200)) if _tainted_out(c))
    blind = [dict(o) for o in case.objects]
    for obj in blind:
        if obj["kind"] == "Node":
            obj["spec"] = {k: v for k, v in obj.get("spec", {}).items() if k != "taints"}
    monkeypatch.setattr(
        "real.differential.report.ask_both",
        lambda cases: (ask_both(cases)[0], ask_both([case.having(blind)])[1]),
    )
    report = compare([case])
    assert any("TaintToleration" in line for line in report.differing[case])


def _tainted_out(case):
    theirs, _ = ask_both([case])
    return any(node["plugin"] == "TaintToleration" for node in theirs[0]["nodes"])
