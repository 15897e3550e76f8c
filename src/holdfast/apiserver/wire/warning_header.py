"""The Warning header of a response, which clients such as kubectl print."""

from __future__ import annotations

from collections.abc import Iterable

TOTAL_LIMIT = 4 * 1024
"""The most characters of all warnings together; beyond, each warning is truncated."""
ITEM_LIMIT = 256
"""The most characters of a truncated warning."""
HEADER_LIMIT = 7 * 1024
"""The most bytes of the header; several clients reject lines of more than 8 KiB."""


def warning_header(warnings: Iterable[str]) -> str:
    r"""Return warnings as one header value; the last item counts those that do not fit.

    >>> warning_header(['unknown field "x"'])
    '299 - "unknown field \\"x\\""'
    """
    texts = [_one_line(text) for text in dict.fromkeys(warnings) if text]
    if sum(map(len, texts)) > TOTAL_LIMIT:
        texts = [text[:ITEM_LIMIT] for text in texts]
    items: list[str] = []
    size = characters = 0
    for left, text in zip(range(len(texts), 0, -1), texts, strict=True):
        item = _item(text)
        size += len(item.encode()) + 2
        characters += len(text)
        if size > HEADER_LIMIT or characters > TOTAL_LIMIT:
            items.append(_item(f"{left} more warnings are not shown"))
            break
        items.append(item)
    return ", ".join(items)


def _item(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def _one_line(text: str) -> str:
    """Replace line breaks and other control characters by spaces."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)
