"""The Warning header of an answer: what clients such as kubectl print beside the result."""

from __future__ import annotations

from collections.abc import Iterable

TOTAL_LIMIT = 4 * 1024
"""The most characters of all warnings together before each is cut."""
ITEM_LIMIT = 256
"""What each warning is cut to then."""
HEADER_LIMIT = 7 * 1024
"""The most bytes of the header: several clients refuse a line of more than 8 KiB."""


def warning_header(warnings: Iterable[str]) -> str:
    r"""Write warnings as one header value; those that do not fit are counted in the last.

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
    """Replace what may not stand in a header: line breaks and other control characters."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else " " for sign in text)
