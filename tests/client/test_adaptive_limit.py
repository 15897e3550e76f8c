"""The limit of requests in flight adapts to a simulated server, without real time."""

import heapq
import itertools
import random
from collections import Counter

import pytest

from holdfast.client.adaptive_limit import (
    HIGHEST,
    LONGEST_HOLD,
    LOWEST,
    REMEMBER_SECONDS,
    START,
    AdaptiveLimit,
)


def run(limit, latency_of, responses, *, now=0.0, refuse_above=10**9, rng=None):
    """Keep ``limit.limit`` requests in flight; return the limit after each of the responses."""
    in_flight, seen = [], []
    while responses > 0:
        while len(in_flight) < limit.limit:
            seconds = latency_of(len(in_flight) + 1) * (rng.uniform(0.8, 1.2) if rng else 1.0)
            heapq.heappush(in_flight, (now + seconds, now, len(in_flight) + 1 > refuse_above))
        now, sent, refused = heapq.heappop(in_flight)
        if refused:
            limit.overloaded(sent, now)
        else:
            limit.succeeded(sent, now, saturated=True)
        seen.append(limit.limit)
        responses -= 1
    return seen


def constant(seconds):
    return lambda _in_flight: seconds


def cores(count, seconds=0.005, others=0):
    """The latency of a server that processes ``count`` requests at once and queues the rest."""
    return lambda in_flight: seconds * max(1.0, (in_flight + others) / count)


def mostly(seen):
    return Counter(seen[len(seen) // 2 :]).most_common(1)[0][0]


def test_limit_grows_to_the_highest_while_latency_is_constant():
    assert run(AdaptiveLimit(), constant(0.05), 300)[-1] == HIGHEST


def test_a_slow_network_is_not_an_overload():
    assert run(AdaptiveLimit(), constant(1.5), 300)[-1] == HIGHEST


@pytest.mark.parametrize("capacity", [4, 8, 16, 32])
def test_limit_stops_growing_when_requests_queue_in_the_server(capacity):
    seen = run(AdaptiveLimit(8), cores(capacity), 4000)
    assert capacity < mostly(seen) <= 4 * capacity


@pytest.mark.parametrize("seed", range(5))
def test_limit_is_constant_on_a_busy_server_with_noise(seed):
    limit = AdaptiveLimit()
    limit.succeeded(0.0, 0.005, saturated=False)
    seen = run(limit, cores(2, others=32), 4000, now=1.0, rng=random.Random(seed))
    assert set(seen) == {START}


def test_the_lowest_latency_is_forgotten_after_a_while():
    limit = AdaptiveLimit()
    limit.succeeded(0.0, 0.001, saturated=False)
    assert set(run(limit, constant(0.1), 1000, now=1.0)) == {START}
    assert run(limit, constant(0.1), 1000, now=REMEMBER_SECONDS + 1)[-1] == HIGHEST


def test_requests_in_flight_together_halve_the_limit_once():
    limit = AdaptiveLimit(32)
    for _ in range(32):
        limit.overloaded(sent=1.0, now=2.0)
    assert limit.limit == 16
    limit.overloaded(sent=2.1, now=3.0)
    assert limit.limit == 8


def test_limit_never_falls_below_the_lowest():
    limit = AdaptiveLimit()
    for n in range(10):
        limit.overloaded(sent=n, now=n + 0.5)
    assert limit.limit == LOWEST


def test_a_late_response_counts_as_overload():
    limit = AdaptiveLimit(16)
    limit.succeeded(sent=0.0, now=5.0, saturated=True)
    assert limit.limit == 8


def test_limit_grows_less_often_the_more_often_the_server_refuses():
    seen = run(AdaptiveLimit(8), constant(0.01), 4000, refuse_above=20)
    assert mostly(seen) == 16
    tail = seen[2000:]
    increases = sum(after > before for before, after in itertools.pairwise(tail))
    assert increases <= 2000 / (16 * LONGEST_HOLD) + 1


def test_limit_grows_again_after_an_overload():
    limit = AdaptiveLimit()
    for n in range(3):
        limit.overloaded(sent=n, now=n + 0.5)
    assert run(limit, constant(0.01), 2000, now=10.0)[-1] == HIGHEST


def test_limit_grows_back_to_the_start_on_a_server_busy_with_other_clients():
    limit = AdaptiveLimit()
    limit.succeeded(0.0, 0.005, saturated=False)  # before other clients loaded the server
    for n in range(5):
        limit.overloaded(sent=n + 1.0, now=n + 1.5)
    assert limit.limit == LOWEST
    assert run(limit, cores(2, others=32), 2000, now=10.0)[-1] == START


def test_limit_is_constant_without_waiting_work():
    limit = AdaptiveLimit()
    for n in range(500):
        limit.succeeded(sent=n, now=n + 0.01, saturated=False)
    assert limit.limit == START


def test_responses_to_requests_sent_under_another_limit_do_not_count():
    limit = AdaptiveLimit()
    limit.overloaded(sent=1.0, now=2.0)
    for _ in range(100):
        limit.succeeded(sent=1.5, now=2.5, saturated=True)
    assert limit.limit == START // 2
