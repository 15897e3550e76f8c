"""Waiting for the word that lets a placed pod be bound; time is up by the clock."""

from __future__ import annotations

import asyncio

from holdfast.clock import Clock
from holdfast.framework.waiting import Outcome, WaitingPod

ROUNDING = 0.001
"""Seconds by which times of day, added and subtracted, may be off."""


async def await_word(clock: Clock, pod: WaitingPod) -> Outcome:
    """Wait until the pod is allowed, rejected or preempted, or a plugin's time is up."""
    heard = asyncio.Event()
    # Deadlines are times of day as of the decision; a clock that is set meanwhile moves none.
    ahead = clock.now() - clock.monotonic()
    pod.on_end = heard.set
    word = asyncio.create_task(heard.wait())
    try:
        while pod.outcome is None:
            seconds = max(0.0, pod.next_deadline() - ahead - clock.monotonic())
            timer = asyncio.create_task(clock.sleep(seconds))
            try:
                await asyncio.wait({word, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
            pod.expire(ahead + clock.monotonic() + ROUNDING)
    finally:
        word.cancel()
    return pod.outcome
