"""Build answers: objects, Status results, errors, and streams that keep coming."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from holdfast.apiserver.wire.negotiation import JSON, PLAIN_JSON, YAML, ResponseFormat
from holdfast.client.transport import Response
from holdfast.errors import Details, HoldfastError, status_of

YAML_LIMIT = 256 * 1024
_encode = msgspec.json.Encoder().encode
_JSON_HEADERS: Mapping[str, str] = {
    "content-type": JSON,
    "cache-control": "no-cache, private",
}


@dataclass(frozen=True, slots=True)
class StreamResponse:
    """An answer that keeps coming, in batches of lines that end in a newline each.

    Whoever holds one calls ``close`` in the end, whether it was read or not.
    """

    batches: AsyncIterator[list[bytes]]
    on_close: Callable[[], None]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: dict(_JSON_HEADERS))

    async def close(self) -> None:
        """Hang up: nobody reads any more."""
        self.on_close()


def encoded_response(
    body: bytes, status: int = 200, response_format: ResponseFormat = PLAIN_JSON
) -> Response:
    """Answer with JSON that is already written, as YAML if the client asked for that.

    JSON is YAML too: a large answer is sent as it is, since writing another form of it would
    hold up all other requests for seconds.
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
    """Answer with a value that has still to be written."""
    return encoded_response(_encode(value) + b"\n", status)


def text_response(text: str, status: int = 200) -> Response:
    """Answer with plain text, as the health paths do."""
    headers = {**_JSON_HEADERS, "content-type": "text/plain; charset=utf-8"}
    return Response(status, headers, text.encode())


def success_response(details: Details | None = None, status: int = 200) -> Response:
    """Answer with a Status that says Success."""
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
    """Answer with the Status an error stands for."""
    status = status_of(error)
    headers = dict(_JSON_HEADERS)
    if error.details.retry_after_seconds:
        headers["retry-after"] = str(error.details.retry_after_seconds)
    return Response(error.code, headers, _encode(status) + b"\n")


def with_headers(response: Response, headers: Mapping[str, str]) -> Response:
    """Copy an answer with more headers."""
    return Response(response.status, {**response.headers, **headers}, response.body)
