"""Jobs, CronJobs and other workloads: validated as by a real kube-apiserver."""

import pytest

from apiserver.job_cases import BAD, GOOD
from real.both_servers import TEST, causes

pytestmark = pytest.mark.real


async def test_workloads_are_validated_alike(servers):
    different = []
    for name, (path, body) in (GOOD | BAD).items():
        real, ours = await servers.send("POST", path + TEST, body)
        answers = [(status, causes(body) if status == 422 else ()) for status, body in (real, ours)]
        if answers[0] != answers[1] or (answers[0][0] == 201) != (name in GOOD):
            different.append((name, *answers))
    assert not different
