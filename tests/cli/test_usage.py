"""Help texts, mistyped options and commands, and values of flags that are not accepted."""

import re

import pytest
from typer.main import get_command

from holdfast.cli.app import app

COMMANDS = (
    "", "up", "down", "status", "apiserver", "scheduler", "why", "explain", "reservation",
    "reservation create", "reservation list", "reservation why", "reservation free",
    "policy", "policy list", "policy status", "policy why",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_no_types_and_no_inequalities(holdfast, command):
    text = holdfast(*command.split(), "--help").out
    assert text.startswith(f"Usage: holdfast {command}".rstrip())
    assert not re.search(r"<[a-z\[]|[<>]=|\bx\b|[{]\w+[}]", text), text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_describes_every_option(command):
    parsed = get_command(app)
    for word in command.split():
        parsed = parsed.commands[word]
    hidden = {param.name for param in parsed.params if not getattr(param, "help", "")}
    assert hidden <= {"announce", "pod", "name"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_written_in_kubernetes_words(holdfast, command):
    text = holdfast(*command.split(), "--help").out
    assert not re.search(r"(?i)\b(who\w*|somebody|nobody|everybody|room|promise\w*)\b", text)


def test_summaries_of_commands_are_not_cut_off(holdfast):
    for group in ((), ("reservation",), ("policy",)):
        assert "..." not in holdfast(*group, "--help").out.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("up --node 3", "No such option: --node. Did you mean --nodes?"),
        ("up --node=3", "No such option: --node. Did you mean --nodes?"),
        ("up -nodes 3", "No such option: -nodes. Did you mean --nodes?"),
        ("up --data /tmp", "No such option: --data. Did you mean --data-dir?"),
        ("explain --pods a/b", "No such option: --pods. Did you mean --pod?"),
        ("reservation create --replica 3", "No such option: --replica. Did you mean --replicas?"),
        ("reservation --hlp", "No such option: --hlp. Did you mean --help?"),
        ("--versio", "No such option: --versio. Did you mean --version?"),
        ("down --bogus", "No such option: --bogus. The options are --data-dir, --help."),
        ("upp", "No such command 'upp'. Did you mean 'up'?"),
        ("shedule", "No such command 'shedule'. Did you mean 'scheduler', 'descheduler'?"),
        ("reservation creat", "No such command 'creat'. Did you mean 'create'?"),
    ],
)
def test_a_mistyped_option_or_command_gets_a_suggestion(holdfast, line, error):
    done = holdfast(*line.split())
    assert (done.code, done.err.splitlines()[-1]) == (2, f"Error: {error}")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("up --port x", "'--port': x is not a port number from 0 to 65535."),
        ("up --health-port 65536", "'--health-port': 65536 is not a port number from 0 to 65535."),
        ("scheduler --health-port -1", "'--health-port': -1 is not a port number"),
        ("up --nodes many", "'--nodes': many is not a whole number of at least 0."),
        ("up --node-shape cpu=16,numa=3", "'--node-shape': numa=3 with cpu=16: cpu must be a mult"),
        (
            "reservation create --for d/w --replicas 0",
            "'--replicas': 0 is not a whole number of at least 1.",
        ),
        (
            "reservation create --for d/w --wait nan",
            "'--wait': nan is not a number of seconds, 0 or more.",
        ),
    ],
)
def test_a_wrong_number_is_rejected_with_the_accepted_range(holdfast, line, error):
    done = holdfast(*line.split())
    assert done.code == 2
    assert f"Error: Invalid value for {error}" in done.err
