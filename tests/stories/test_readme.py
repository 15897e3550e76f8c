"""The README's transcript, replayed."""

import pytest

from stories.transcript import ROOT, replay, run, running_cluster


@pytest.mark.guide
@pytest.mark.kubectl
def test_the_transcript_of_the_readme_is_true(tmp_path):
    with running_cluster(tmp_path) as environment:
        assert replay(ROOT / "README.md", environment) > 8
        where = "jsonpath={.status.nodeName}{.spec.nodeName}"
        reserved = run(f"kubectl get reservation reservation-demo -o {where}", environment)
        assert run(f"kubectl get pod pod-demo-0 -o {where}", environment) == reserved != ""
