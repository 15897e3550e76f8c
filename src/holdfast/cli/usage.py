"""Values of flags, and the messages for a mistyped flag or command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from typer._click import Context


def parse_port(text: str | int) -> int:
    """Parse a port number."""
    if str(text).isdecimal() and int(text) <= 65535:
        return int(text)
    raise typer.BadParameter(f"{text} is not a port number from 0 to 65535.")


def at_least(lowest: int) -> Callable[[str | int], int]:
    """Return a parser of whole numbers that rejects those below ``lowest``."""

    def parse(text: str | int) -> int:
        if str(text).isdecimal() and int(text) >= lowest:
            return int(text)
        raise typer.BadParameter(f"{text} is not a whole number of at least {lowest}.")

    return parse


def parse_seconds(text: str | float) -> float:
    """Parse a number of seconds, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise typer.BadParameter(f"{text} is not a number of seconds, 0 or more.")
    return value


def parse_kubelet_dirs(texts: Iterable[str]) -> dict[str, Path]:
    """Parse the values of ``--kubelet-dir``: NODE=DIR.

    >>> parse_kubelet_dirs(["node-0002=/var/lib/kubelet"])
    {'node-0002': PosixPath('/var/lib/kubelet')}
    """
    by_node: dict[str, Path] = {}
    for text in texts:
        node, equals, directory = text.partition("=")
        if not (node and equals and directory):
            raise typer.BadParameter(f"{text} is not NODE=DIR.", param_hint="'--kubelet-dir'")
        by_node[node] = Path(directory).expanduser().absolute()
    return by_node


def similar_option(typed: str, options: Iterable[str]) -> str:
    """Return the option that the user probably meant, "" if none is similar.

    >>> similar_option("--node", ["--nodes", "--host"]), similar_option("-nodes", ["--nodes"])
    ('--nodes', '--nodes')
    >>> similar_option("--bogus", ["--nodes", "--host"])
    ''
    """
    word = typed.lstrip("-").partition("=")[0].lower()
    by_word = {option.lstrip("-"): option for option in options if option.startswith("--")}
    longer = [known for known in by_word if len(word) > 1 and known.startswith(word)]
    longer.sort(key=lambda known: (len(known), known))
    matches = longer or get_close_matches(word, by_word, 1)
    return by_word[matches[0]] if matches else ""


class Command(TyperCommand):
    """A command that suggests the right option for a mistyped one."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the command line of this command."""
        with _suggested_option(ctx, args):
            return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """Write arguments in the usage line as kubectl does: POD, not {POD}."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class Group(TyperGroup):
    """A group of commands that suggests the right option, or command, for a mistyped one."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the options before the command's name."""
        with _suggested_option(ctx, args):
            return super().parse_args(ctx, args)


def command_group(name: str, summary: str) -> typer.Typer:
    """Return a group without commands; called without one it prints its help."""
    return typer.Typer(
        name=name, cls=Group, help=summary, no_args_is_help=True, rich_markup_mode=None
    )


@contextmanager
def _suggested_option(ctx: Context, args: list[str]) -> Iterator[None]:
    typed_args = list(args)
    try:
        yield
    except Exception as error:
        # The class of this error has moved between releases of typer; its fields have not.
        if not hasattr(error, "possibilities"):
            raise
        name = str(getattr(error, "option_name", ""))
        typed = next((arg for arg in typed_args if arg.startswith(name)), name).partition("=")[0]
        vars(error).update(message=_no_such_option(typed, _options(ctx)), possibilities=[])
        raise


def _no_such_option(typed: str, options: list[str]) -> str:
    meant = similar_option(typed, options)
    if meant:
        return f"No such option: {typed}. Did you mean {meant}?"
    known = sorted(option for option in options if option.startswith("--"))
    return f"No such option: {typed}. The options are {', '.join(known)}."


def _options(ctx: Context) -> list[str]:
    shown = [p for p in ctx.command.get_params(ctx) if not getattr(p, "hidden", False)]
    return [option for param in shown for option in (*param.opts, *param.secondary_opts)]
