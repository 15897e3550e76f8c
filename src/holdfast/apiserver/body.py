"""Read request bodies: JSON, YAML or protobuf in, one JSON value out."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import yaml

from holdfast.apiserver.negotiation import PROTOBUF, YAML, body_media
from holdfast.apiserver.protobuf import decode_body
from holdfast.client.transport import Request
from holdfast.errors import BadRequest, TooLarge

BODY_LIMIT = 3 * 1024 * 1024
DEPTH_LIMIT = 200


class _PlainLoader(yaml.CSafeLoader):
    """YAML as far as it is JSON: no repeated keys, times stay text."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = str(self.construct_object(key_node, deep=True))
            if key in mapping:
                raise BadRequest(f'error converting YAML to JSON: key "{key}" already set in map')
            mapping[key] = self.construct_object(value_node, deep=True)
        return mapping


def _mapping(loader: Any, node: Any) -> dict[Any, Any]:
    made: dict[Any, Any] = loader.construct_mapping(node)
    return made


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_PlainLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse_yaml(text: bytes) -> Any:
    """Read one YAML document as a JSON value.

    >>> parse_yaml(b"a: 2001-01-01")
    {'a': '2001-01-01'}
    """
    loader = _PlainLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_aliases(node)
        return loader.construct_document(node)
    except (yaml.YAMLError, ValueError) as broken:  # ValueError: a number of 5,000 digits
        raise BadRequest(f"error converting YAML to JSON: {broken}") from broken
    finally:
        loader.dispose()


def _refuse_aliases(root: yaml.Node) -> None:
    """Refuse a document that repeats a part by reference: a few lines could mean gigabytes."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            raise BadRequest("error converting YAML to JSON: aliases are not accepted")
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def parse_json(text: bytes) -> Any:
    """Read JSON, refusing what is nested too deep to be meant."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as broken:
        raise BadRequest(f"json parse error: {broken}") from broken


def check_size(body: bytes) -> None:
    """Refuse a body over the limit."""
    if len(body) > BODY_LIMIT:
        raise TooLarge(f"Request entity too large: limit is {BODY_LIMIT}")


def may_be_deep(body: bytes) -> bool:
    """Tell whether a body has brackets enough to be nested too deep; most have not.

    Forms without brackets (protobuf, block YAML) have to be walked.
    """
    brackets = body.count(b"{") + body.count(b"[")
    return not 0 < brackets <= DEPTH_LIMIT


def check_depth(value: Any, limit: int = DEPTH_LIMIT) -> None:
    """Refuse nesting that would exhaust whoever walks the object later.

    >>> check_depth([[[[]]]], 2)
    Traceback (most recent call last):
    holdfast.errors.BadRequest: the object is nested more than 2 levels deep
    """
    level = [value]
    for _ in range(limit + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += [v for v in item.values() if isinstance(v, dict | list)]
            elif isinstance(item, list):
                inner += [v for v in item if isinstance(v, dict | list)]
        if not inner:
            return
        level = inner
    raise BadRequest(f"the object is nested more than {limit} levels deep")


def read_value(request: Request) -> Any:
    """Read the body in whatever form its Content-Type says; an empty body is None."""
    check_size(request.body)
    media = body_media(request.headers.get("content-type", ""))
    if not request.body:
        return None
    if media == PROTOBUF:
        return decode_body(request.body)
    if media == YAML:
        return parse_yaml(request.body)
    return parse_json(request.body)


def read_object(request: Request) -> dict[str, Any]:
    """Read the body as one API object."""
    value = read_value(request)
    if value is None:
        raise BadRequest("json parse error: unexpected end of JSON input")
    if not isinstance(value, dict):
        raise BadRequest("json parse error: the body must be one JSON object")
    return cast("dict[str, Any]", value)
