"""Content negotiation: the formats of request bodies and responses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from holdfast.runtime.errors import NotAcceptable, Unsupported

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_ANY_JSON = frozenset({JSON, "*/*", "application/*"})
_BODY_MEDIA_TYPES = (JSON, YAML, PROTOBUF)


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The format of a response; ``as_`` is empty, Table or PartialObjectMetadata(List)."""

    media_type: str = JSON
    as_: str = ""
    group: str = ""
    version: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether stored bytes can be sent unchanged."""
        return self.media_type == JSON and not self.as_

    @property
    def is_table(self) -> bool:
        """Whether a Table was requested."""
        return self.as_ == "Table"

    @property
    def is_metadata(self) -> bool:
        """Whether only metadata was requested."""
        return self.as_.startswith("PartialObjectMetadata")


PLAIN_JSON = ResponseFormat()


def _clauses(header: str) -> list[tuple[float, str, dict[str, str]]]:
    clauses = []
    for clause in header.split(","):
        media, *raw = (part.strip() for part in clause.split(";"))
        params = dict(part.split("=", 1) for part in raw if "=" in part)
        try:
            weight = float(params.pop("q", "1"))
        except ValueError:
            weight = 0.0
        clauses.append((weight, media.lower(), params))
    return sorted(clauses, key=lambda clause: -clause[0])


@lru_cache(maxsize=256)
def negotiate_response(accept: str) -> ResponseFormat:
    """Return the first supported format of an Accept header; raise NotAcceptable if none is.

    >>> negotiate_response("application/vnd.kubernetes.protobuf,application/json").is_plain
    True
    >>> negotiate_response("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").as_
    'Table'
    """
    if not accept:
        return PLAIN_JSON
    for weight, media, params in _clauses(accept):
        if weight <= 0:
            continue
        as_ = params.get("as", "")
        if as_ and not _is_known_transform(as_, params):
            continue
        transform = (as_, params.get("g", ""), params.get("v", "")) if as_ else ("", "", "")
        if media in _ANY_JSON:
            return ResponseFormat(JSON, *transform)
        if media == YAML:
            return ResponseFormat(YAML, *transform)
    raise NotAcceptable(
        f"406: Not Acceptable\n\nAvailable representations: {JSON}, {YAML}, {JSON};stream=watch"
    )


def _is_known_transform(as_: str, params: dict[str, str]) -> bool:
    known = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    versions = ("v1", "v1beta1")
    return as_ in known and params.get("g") == "meta.k8s.io" and params.get("v") in versions


@lru_cache(maxsize=64)
def negotiate_discovery(accept: str) -> str:
    """Return the version of aggregated discovery, v2 or v2beta1, or "" for legacy documents."""
    for weight, media, params in _clauses(accept or JSON):
        if weight <= 0 or media not in _ANY_JSON:
            continue
        if not params.get("as"):
            return ""
        wanted = (params.get("as"), params.get("g"))
        if wanted == ("APIGroupDiscoveryList", "apidiscovery.k8s.io") and params.get("v") in (
            "v2",
            "v2beta1",
        ):
            return params["v"]
    return ""


@lru_cache(maxsize=64)
def body_media_type(content_type: str) -> str:
    """Return the media type of a request body; JSON by default.

    >>> body_media_type("application/json; charset=utf-8")
    'application/json'
    """
    media = content_type.split(";", 1)[0].strip().lower()
    if not media or media == "*/*":
        return JSON
    if media in _BODY_MEDIA_TYPES:
        return media
    raise Unsupported(
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(_BODY_MEDIA_TYPES)
    )
