"""Stop signals: the first stops, the second exits at once; the end of the parent stops too.

Signals that mean nothing here end nothing.
"""

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, sys
from holdfast.cli.signals import stop_event

async def main(stubborn, with_parent):
    stop = stop_event(with_parent=with_parent)
    print("ready", flush=True)
    await stop.wait()
    print("stopping", flush=True)
    if stubborn:
        await asyncio.Event().wait()

asyncio.run(main("stubborn" in sys.argv, "with-parent" in sys.argv))
"""


@pytest.fixture
def listener():
    started = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *words], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        with process:
            pass  # waits for it and closes the pipes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_and_the_second_exits(listener, number):
    polite, stubborn = listener(), listener("stubborn")
    for process in (polite, stubborn):
        process.send_signal(number)
        assert process.stdout.readline() == "stopping\n"
    assert polite.wait(30) == 0
    stubborn.send_signal(number)
    assert stubborn.wait(30) == 128 + number


def test_the_end_of_the_parent_stops_the_process(listener):
    process = listener("with-parent")
    process.stdin.write("anything else is no such word\n")
    process.stdin.flush()
    assert process.poll() is None
    process.stdin.close()
    assert process.stdout.readline() == "stopping\n"
    assert process.wait(30) == 0


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE"])
def test_other_signals_do_not_end_the_process(listener, name):
    process = listener()
    process.send_signal(signal.Signals[name])
    process.send_signal(signal.Signals[name])
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "stopping\n"
    assert process.wait(30) == 0


TWICE = """
import asyncio, os, signal
from holdfast.cli import signals

async def main():
    stop = signals.stop_event()
    for name in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), name)
    await stop.wait()
    await asyncio.sleep(0.1)
    print("stopped", flush=True)

signals.run(main())
"""


def test_signals_that_arrive_together_count_as_one():
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped\n", "")


LATE = """
import os, signal, sys
from asyncio.selector_events import BaseSelectorEventLoop
from holdfast.cli import signals

close_pipe = BaseSelectorEventLoop._close_self_pipe

def close_and_signal(loop):
    close_pipe(loop)
    os.kill(os.getpid(), signal.Signals[sys.argv[1]])

BaseSelectorEventLoop._close_self_pipe = close_and_signal

async def main():
    signals.stop_event()

signals.run(main())
print("ended", flush=True)
"""


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGTERM"])
def test_a_signal_while_the_loop_closes_prints_no_bad_file_descriptor(name):
    done = subprocess.run(
        [sys.executable, "-c", LATE, name], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    if name == "SIGTERM":  # the second one, in effect: it ends the process at once
        assert done.returncode == -signal.SIGTERM
    else:
        assert (done.returncode, done.stdout) == (0, "ended\n")
