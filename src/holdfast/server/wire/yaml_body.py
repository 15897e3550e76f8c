"""Decode a YAML request body to a JSON value, without recursion.

libyaml's composer recurses once per level of nesting and overflows the stack: 30 KB of ``[`` ended
the process. So the value is built here from the events of the parser.

The other limits have the same reason: a small body must not stop the server. A number of base 60
with 1.4 MB took minutes, and 100,000 %TAG directives took half a minute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import yaml

from holdfast.runtime.errors import BadRequest
from holdfast.server.wire.nesting_limit import DEPTH_LIMIT, too_deep

VALUE_LIMIT = 250_000
"""The most scalars and collections in a body; each takes some microseconds."""
_DIRECTIVE_LIMIT = 100
_NUMBER_LENGTH = 64
_TAGS = "tag:yaml.org,2002:"
_STRING = _TAGS + "str"
_COLLECTION_TAGS = frozenset({None, "!", _TAGS + "map", _TAGS + "seq"})
_READERS: dict[str, Callable[[yaml.ScalarNode], Any]] = {
    _STRING: lambda node: node.value,
    _TAGS + "null": lambda node: None,
    _TAGS + "bool": (_safe := yaml.SafeLoader("")).construct_yaml_bool,
    _TAGS + "int": _safe.construct_yaml_int,
    _TAGS + "float": _safe.construct_yaml_float,
}
# Numbers of base 60 (1:30) and times are strings, as in Go's parser.
_RESOLVERS = {
    first: [(tag, regexp.match) for tag, regexp in resolvers if tag in _READERS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _read_scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    tag = event.tag
    if tag is None or tag == "!":
        if not event.implicit[0]:
            return text
        tag = next((tag for tag, fits in _RESOLVERS.get(text[:1], ()) if fits(text)), _STRING)
    if tag == _STRING or (":" in text and tag in _READERS):
        return text
    if tag not in _READERS:
        raise _error(f"the tag {tag} is not accepted")
    if len(text) > _NUMBER_LENGTH:
        raise _error(f"a number of more than {_NUMBER_LENGTH} characters")
    try:
        value = _READERS[tag](yaml.ScalarNode(tag, text))
    except KeyError:
        raise _error(f"{text} is no value of the tag {tag}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise _error(f"json: unsupported value: {text}")
    return value


class _Builder:
    """Builds the value of a document; ``_open`` are the open collections, outermost first.

    ``_keys`` stores the key of a mapping until its value follows.
    """

    def __init__(self) -> None:
        self.value: Any = None
        self._open: list[Any] = []
        self._keys: list[Any] = []

    def start(self, event: yaml.CollectionStartEvent) -> None:
        """Open a mapping or a sequence."""
        if event.tag not in _COLLECTION_TAGS:
            raise _error(f"the tag {event.tag} is not accepted")
        if len(self._open) > DEPTH_LIMIT:
            raise too_deep()
        collection: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.add(collection)
        self._open.append(collection)
        self._keys.append(None)

    def end(self) -> None:
        """Close the innermost collection."""
        self._open.pop()
        self._keys.pop()

    def add(self, value: Any) -> None:
        """Add a value, or the next key, to the innermost collection."""
        if not self._open:
            self.value = value
            return
        parent = self._open[-1]
        if isinstance(parent, list):
            parent.append(value)
        elif self._keys[-1] is None:
            self._keys[-1] = _key(value, parent)
        else:
            parent[self._keys[-1]] = value
            self._keys[-1] = None


def parse_yaml(text: bytes) -> Any:
    """Decode one YAML document to a JSON value; an empty body is None.

    >>> parse_yaml(b"a: 2001-01-01")
    {'a': '2001-01-01'}
    """
    if text.count(b"%TAG") > _DIRECTIVE_LIMIT:  # libyaml takes quadratic time for them
        raise _error(f"more than {_DIRECTIVE_LIMIT} directives")
    try:
        return _build(text.decode(), _Builder())
    except (yaml.YAMLError, ValueError) as broken:
        raise _error(str(broken)) from broken


def _build(text: str, builder: _Builder) -> Any:
    documents = 0
    for count, event in enumerate(yaml.parse(text, yaml.CSafeLoader)):
        if count > VALUE_LIMIT:
            raise _error(f"more than {VALUE_LIMIT} values; send JSON instead")
        if isinstance(event, yaml.ScalarEvent):
            builder.add(_read_scalar(event))
        elif isinstance(event, yaml.CollectionStartEvent):
            builder.start(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            builder.end()
        elif isinstance(event, yaml.AliasEvent):
            raise _error("aliases are not accepted")
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _error("expected a single document in the stream")
    return builder.value


def _key(value: Any, mapping: dict[str, Any]) -> str:
    """Return a mapping key as a string; raise BadRequest for a repeated or complex key."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise _error(f"unsupported map key: {value}")
    key = str(value)
    if key in mapping:
        raise _error(f'key "{key}" already set in map')
    return key


def _error(message: str) -> BadRequest:
    return BadRequest(f"error converting YAML to JSON: {message}")
