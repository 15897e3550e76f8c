"""The names of CDI: vendors, classes, devices, and ``vendor/class=name``."""

from __future__ import annotations

import re

_MIDDLE = {"vendor": "_.-", "class": "_.-", "name": "_.:-"}


def name_error(text: str, part: str) -> str:
    """Return what is wrong with a vendor, class or device name ("name"), or "".

    >>> name_error("gpu-", "name")
    'must start and end with a letter or digit'
    >>> name_error("0.example.com", "vendor")
    'must start with a letter and end with a letter or digit'
    """
    if not text:
        return "must not be empty"
    first, rule = "A-Za-z", "must start with a letter and end with a letter or digit"
    if part == "name":
        first, rule = "A-Za-z0-9", "must start and end with a letter or digit"
    if not re.fullmatch(f"[{first}]|[{first}].*[A-Za-z0-9]", text, re.DOTALL):
        return rule
    middle = _MIDDLE[part]
    if not re.fullmatch(f"[A-Za-z0-9{middle}]+", text):
        signs = " ".join(f"'{sign}'" for sign in middle)
        return f"must consist of letters, digits and {signs}"
    return ""


def kind_error(kind: str) -> str:
    """Return what is wrong with a kind (``vendor/class``), or "".

    >>> kind_error("example.com")
    'must be vendor/class'
    >>> kind_error("example.com/gpu/x")
    "the class must consist of letters, digits and '_' '.' '-'"
    """
    vendor, slash, class_ = kind.partition("/")
    if not slash:
        return "must be vendor/class"
    for part, text in (("vendor", vendor), ("class", class_)):
        if error := name_error(text, part):
            return f"the {part} {error}"
    return ""


def qualified_name_error(text: str) -> str:
    """Return what is wrong with a qualified name (``vendor/class=name``), or "".

    >>> qualified_name_error("example.com/gpu=gpu-0"), qualified_name_error("gpu-0")
    ('', 'must be vendor/class=name')
    """
    kind, equals, name = text.partition("=")
    if not equals:
        return "must be vendor/class=name"
    if error := kind_error(kind):
        return error
    return f"the device name {error}" if (error := name_error(name, "name")) else ""
