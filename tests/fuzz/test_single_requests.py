"""Hypothesis chooses one request at a time and makes what fails small; nothing is stored."""

import asyncio
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.checks import judge
from fuzz.fuzzer import Fuzzer
from fuzz.target import Target

EXAMPLES = 100
QUIET = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


class Standing:
    """A cluster on a loop of its own, with a few objects that requests can be about."""

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
def standing(tmp_path_factory):
    made = Standing(tmp_path_factory.mktemp("standing"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def stored(standing):
    """What the requests of one seed have stored, to be updated, patched and deleted."""
    fuzzer = Fuzzer(random.Random(1), standing.kinds, standing.schemas)
    while len(fuzzer.stored) < 40:
        probe = fuzzer.next()
        answer = standing.send(probe)
        fuzzer.heard(probe, answer.status, answer.body)
    return list(fuzzer.stored)


@pytest.mark.long
@given(rng=st.randoms(use_true_random=False))
@QUIET
def test_no_request_is_answered_with_an_internal_error(standing, stored, rng):
    fuzzer = Fuzzer(rng, standing.kinds, standing.schemas)
    fuzzer.stored.extend(stored)
    probe = fuzzer.next()
    probe.query["dryRun"] = "All"
    answer = standing.send(probe)
    assert not judge(probe, answer), probe
