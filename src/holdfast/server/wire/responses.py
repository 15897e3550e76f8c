"""Build responses: objects, Status, errors, streams, and the Warning header."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from holdfast.client.transport import Response
from holdfast.runtime.errors import Details, HoldfastError, status_of
from holdfast.server.wire.negotiation import JSON, PLAIN_JSON, YAML, ResponseFormat

if TYPE_CHECKING:
    import aiohttp


YAML_LIMIT = 256 * 1024
_encode = msgspec.json.Encoder().encode
_JSON_HEADERS: Mapping[str, str] = {
    "content-type": JSON,
    "cache-control": "no-cache, private",
}
_ALL_WARNINGS_LIMIT = 4 * 1024
"""The most characters of all warnings together; beyond, each warning is truncated."""
_WARNING_LIMIT = 256
"""The most characters of a truncated warning."""
WARNING_HEADER_LIMIT = 7 * 1024
"""The most bytes of the header; several clients reject lines of more than 8 KiB."""


@dataclass(frozen=True, slots=True)
class StreamResponse:
    """A streamed response: batches of lines that end in a newline each.

    ``close`` must be called in the end, whether the stream was read or not.
    """

    batches: AsyncIterator[list[bytes]]
    on_close: Callable[[], None]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: dict(_JSON_HEADERS))

    async def close(self) -> None:
        """Stop the stream."""
        self.on_close()


@dataclass(frozen=True, slots=True)
class WebSocketProxy:
    """A WebSocket to a node, to be connected with one to the client.

    ``close`` must be called in the end, whether it was used or not.
    """

    node: aiohttp.ClientWebSocketResponse
    status: int = 101
    headers: Mapping[str, str] = field(default_factory=dict)

    async def close(self) -> None:
        """Close the WebSocket to the node."""
        await self.node.close()


ServerResponse = Response | StreamResponse | WebSocketProxy


def encoded_response(
    body: bytes, status: int = 200, response_format: ResponseFormat = PLAIN_JSON
) -> Response:
    """Return a response with a body of JSON, converted to YAML if that was negotiated.

    JSON is valid YAML: a large body is sent as it is, because converting it would delay all other
    requests for seconds.
    """
    if response_format.media_type == YAML and len(body) > YAML_LIMIT:
        return Response(status, {**_JSON_HEADERS, "content-type": YAML}, body)
    if response_format.media_type == YAML:
        text = yaml.dump(
            msgspec.json.decode(body), Dumper=yaml.CSafeDumper, default_flow_style=False
        )
        return Response(status, {**_JSON_HEADERS, "content-type": YAML}, text.encode())
    return Response(status, _JSON_HEADERS, body)


def json_response(value: Any, status: int = 200) -> Response:
    """Return a response with a value encoded as JSON."""
    return encoded_response(_encode(value) + b"\n", status)


def text_response(text: str, status: int = 200) -> Response:
    """Return a response of plain text."""
    headers = {**_JSON_HEADERS, "content-type": "text/plain; charset=utf-8"}
    return Response(status, headers, text.encode())


def success_response(details: Details | None = None, status: int = 200) -> Response:
    """Return a Status with status Success."""
    value: dict[str, Any] = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
    }  # fmt: skip
    if details is not None:
        named = (("name", details.name), ("group", details.group), ("kind", details.kind),
                 ("uid", details.uid))  # fmt: skip
        value["details"] = {k: v for k, v in named if v}
    if status != 200:
        value["code"] = status
    return json_response(value, status)


def error_response(error: HoldfastError) -> Response:
    """Return the Status of an error."""
    status = status_of(error)
    headers = dict(_JSON_HEADERS)
    if error.details.retry_after_seconds:
        headers["retry-after"] = str(error.details.retry_after_seconds)
    return Response(error.code, headers, _encode(status) + b"\n")


def with_headers(response: Response, headers: Mapping[str, str]) -> Response:
    """Copy a response and add headers."""
    return Response(response.status, {**response.headers, **headers}, response.body)


def with_warnings(response: ServerResponse, warnings: Iterable[str]) -> ServerResponse:
    """Add warnings before the other warnings of a response; "" is no warning."""
    added = list(filter(None, warnings))
    if not added:
        return response
    others = response.headers.get("warning")
    shown = ", ".join(filter(None, (warning_header(added), others)))
    if isinstance(response, Response):
        return with_headers(response, {"warning": shown})
    return replace(response, headers={**response.headers, "warning": shown})


def warning_header(warnings: Iterable[str]) -> str:
    r"""Return warnings as one header value; the last item counts those that do not fit.

    >>> warning_header(['unknown field "x"'])
    '299 - "unknown field \\"x\\""'
    """
    texts = [_one_line(text) for text in dict.fromkeys(warnings) if text]
    if sum(map(len, texts)) > _ALL_WARNINGS_LIMIT:
        texts = [text[:_WARNING_LIMIT] for text in texts]
    items: list[str] = []
    size = characters = 0
    for left, text in zip(range(len(texts), 0, -1), texts, strict=True):
        item = _item(text)
        size += len(item.encode()) + 2
        characters += len(text)
        if size > WARNING_HEADER_LIMIT or characters > _ALL_WARNINGS_LIMIT:
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
