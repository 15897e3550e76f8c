"""A repeated line is logged at most once a minute."""

from __future__ import annotations

import logging

import pytest

from holdfast.runtime.repeated_log import MAX_LINES, RepeatFilter, Repeats


class Seconds:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def seconds():
    return Seconds()


def test_a_line_passes_once_a_minute_with_the_number_left_out(seconds):
    repeats = Repeats(now=seconds)
    assert repeats.admit("disk full") == ""
    seconds.now += 59.9
    assert [repeats.admit("disk full") for _ in range(3)] == [None] * 3
    assert repeats.admit("another line") == ""
    seconds.now += 0.1
    assert repeats.admit("disk full") == " (repeated 3 times meanwhile)"
    seconds.now += 60
    assert repeats.admit("disk full") == ""


def test_only_so_many_lines_are_remembered(seconds):
    repeats = Repeats(now=seconds)
    for number in range(MAX_LINES + 1):
        repeats.admit(number)
    assert repeats.admit(MAX_LINES) is None
    assert repeats.admit(0) == ""


def test_lines_of_one_cause_are_logged_once(seconds, caplog):
    repeats, log = Repeats(now=seconds), logging.getLogger("repeats.logged")
    for name in ("a", "b", "c"):
        repeats.log(log, logging.WARNING, f"event {name} dropped", same="lost lease")
    seconds.now += 60
    repeats.log(log, logging.WARNING, "event d dropped", same="lost lease")
    assert caplog.messages == ["event a dropped", "event d dropped (repeated 2 times meanwhile)"]


def logger(name, filter_):
    made = logging.getLogger(name)
    made.addFilter(filter_)
    return made


def test_a_filter_compares_text_and_exception(seconds, caplog):
    log = logger("repeats.by_line", RepeatFilter(now=seconds))
    for client in ("a", "b", "a"):
        log.error("lost %s", client)
    for problem in (ValueError("x"), ValueError("x"), ValueError("y")):
        log.error("failed", exc_info=problem)
    assert [r.getMessage() for r in caplog.records] == ["lost a", "lost b", "failed", "failed"]
    seconds.now += 60
    log.error("lost %s", "a")
    assert caplog.records[-1].getMessage() == "lost a (repeated 1 time meanwhile)"
