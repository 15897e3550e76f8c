"""Waiting for the word that lets a placed pod be bound; time is up by the clock."""

from __future__ import annotations

import asyncio

from holdfast.clock import Clock
from holdfast.framework.waiting import Outcome, WaitingPod


async def await_word(clock: Clock, pod: WaitingPod) -> Outcome:
    """Wait until the pod is allowed, rejected or preempted, or a plugin's time is up."""
    heard = asyncio.Event()
    pod.on_end = heard.set
    word = asyncio.create_task(heard.wait())
    try:
        while pod.outcome is None:
            seconds = max(0.0, pod.next_deadline() - clock.now())
            timer = asyncio.create_task(clock.sleep(seconds))
            try:
                await asyncio.wait({word, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
            pod.expire(clock.now())
    finally:
        word.cancel()
    return pod.outcome
