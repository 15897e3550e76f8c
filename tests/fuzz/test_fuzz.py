"""Two thousand random requests to clusters, with restarts in between.

``make fuzz ARGS="--requests 100000"`` sends more. A failure here with seed N is reproduced there
with ``--exactly N --requests 900``, which writes a short list of requests that cause it.
"""

import pytest

from fuzz.campaign import campaign


def faults(report):
    return "\n\n".join(
        f"{fault.signature}\n{fault.what}\n{fault.trace}\nlast request: {fault.requests[-1]}"
        for fault in report.faults.values()
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
async def test_no_request_breaks_the_cluster(tmp_path, seed):
    report = await campaign(tmp_path, seed, 900)
    assert not report.faults, faults(report)
    assert report.requests == 900
    assert report.statuses[201] > 50


@pytest.mark.long
async def test_no_request_over_https_breaks_the_cluster(tmp_path):
    report = await campaign(tmp_path, 5, 400, https=True)
    assert not report.faults, faults(report)
    assert report.requests == 400
