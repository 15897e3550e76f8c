"""Format log records so that a message cannot imitate another record."""

from __future__ import annotations

import logging

from holdfast.cli.table import escaped

_FORMAT = "%(levelname).1s %(name)s: %(message)s"


class LogFormatter(logging.Formatter):
    r"""Escape control characters of messages and indent the lines of tracebacks.

    Messages contain names and paths that clients choose. With line breaks or terminal escapes
    in them a client could otherwise forge log lines.

    >>> record = logging.LogRecord("a", logging.ERROR, "", 0, "GET %s", ("/x\nE a: \x1b[2J",), None)
    >>> LogFormatter().format(record)
    'E a: GET /x\\nE a: \\x1b[2J'
    """

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Format the message on one line."""
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        """Format a traceback with every line indented."""
        text = super().formatException(ei)  # type: ignore[arg-type]
        return "\n".join(f"    {escaped(line)}" for line in text.split("\n"))
