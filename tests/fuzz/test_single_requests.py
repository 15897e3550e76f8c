"""Single requests chosen by Hypothesis, which minimizes failing ones; nothing is stored."""

import asyncio
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.checks import check_response
from fuzz.fuzzer import Fuzzer
from fuzz.target import Target

EXAMPLES = 100
QUIET = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


class RunningTarget:
    """A cluster on its own event loop, with a few objects."""

    def __init__(self, directory):
        self.loop = asyncio.new_event_loop()
        self.target = Target(directory)
        self.loop.run_until_complete(self.target.__aenter__())
        self.kinds, self.schemas = self.loop.run_until_complete(self.target.read_kinds())

    def send(self, probe):
        return self.loop.run_until_complete(self.target.send(probe))

    def close(self):
        self.loop.run_until_complete(self.target.__aexit__(None, None, None))
        self.loop.close()


@pytest.fixture(scope="module")
def running_target(tmp_path_factory):
    made = RunningTarget(tmp_path_factory.mktemp("standing"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def stored(running_target):
    """Return objects that random requests have stored, to be updated, patched and deleted."""
    fuzzer = Fuzzer(random.Random(1), running_target.kinds, running_target.schemas)
    while len(fuzzer.stored) < 40:
        probe = fuzzer.next()
        answer = running_target.send(probe)
        fuzzer.observe(probe, answer.status, answer.body)
    return list(fuzzer.stored)


@pytest.mark.long
@given(rng=st.randoms(use_true_random=False))
@QUIET
def test_no_request_causes_an_internal_error(running_target, stored, rng):
    fuzzer = Fuzzer(rng, running_target.kinds, running_target.schemas)
    fuzzer.stored.extend(stored)
    probe = fuzzer.next()
    probe.query["dryRun"] = "All"
    answer = running_target.send(probe)
    assert not check_response(probe, answer), probe
