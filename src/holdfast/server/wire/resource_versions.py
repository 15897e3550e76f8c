"""The options ``resourceVersion`` and ``resourceVersionMatch`` of lists and watches."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.api.field_errors import go_quoted
from holdfast.runtime.errors import BadRequest, Cause, Details, Retryable
from holdfast.server.wire.query_options import (
    forbidden_option,
    parse_integer,
    unsupported_option,
)
from holdfast.server.wire.request_info import is_true

_KIND = "ListOptions"
_MATCHES = ("Exact", "NotOlderThan")


class ResourceVersionTooLarge(Retryable):
    """The requested resourceVersion does not exist yet; the client may retry."""

    code, reason = 504, "Timeout"


def parse_resource_version(text: str) -> int:
    """Parse a resourceVersion; 0 if it is not set."""
    if not text:
        return 0
    try:
        return parse_integer("ParseUint", text, 0, (1 << 64) - 1)
    except BadRequest as wrong:
        shown = go_quoted(text)
        raise BadRequest(f"resourceVersion: Invalid value: {shown}: {wrong.message}") from wrong


def check_not_newer(wanted: int, revision: int) -> None:
    """Raise ResourceVersionTooLarge for a version that does not exist yet."""
    if wanted > revision:
        message = f"Too large resource version: {wanted}, current: {revision}"
        cause = Cause("", "Too large resource version", "ResourceVersionTooLarge")
        raise ResourceVersionTooLarge(
            f"Timeout: {message}", Details(causes=(cause,), retry_after_seconds=1)
        )


def revision_to_list(query: Mapping[str, str], revision: int, *, paged: bool) -> int | None:
    """Check the options of a list; return the revision to list, None for the newest."""
    text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    try:
        wanted = parse_resource_version(text)
    except BadRequest as wrong:
        raise BadRequest(f"invalid resource version: {wrong.message}") from wrong
    if query.get("sendInitialEvents"):
        raise forbidden_option(
            _KIND, "sendInitialEvents", "sendInitialEvents is forbidden for list"
        )
    _check_match(text, match, wanted)
    check_not_newer(wanted, revision)
    if wanted and (match == "Exact" or (paged and not match)):
        return wanted
    return None


def _check_match(text: str, match: str, wanted: int) -> None:
    if match:
        if not text:
            raise forbidden_option(
                _KIND,
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )
        if match not in _MATCHES:
            raise unsupported_option(_KIND, "resourceVersionMatch", f'"{match}"', (*_MATCHES, ""))
        if match == "Exact" and wanted == 0:
            raise forbidden_option(
                _KIND,
                "resourceVersionMatch",
                'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
            )


def wants_initial_events(query: Mapping[str, str]) -> bool:
    """Check the options of a watch; return whether initial events and their end are sent."""
    initial = query.get("sendInitialEvents")
    match = query.get("resourceVersionMatch", "")
    if initial is None:
        if match:
            raise forbidden_option(
                _KIND,
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        return False
    if not match:
        raise forbidden_option(
            _KIND,
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )
    if match != "NotOlderThan":
        raise unsupported_option(_KIND, "resourceVersionMatch", f'"{match}"', ("NotOlderThan",))
    return is_true(initial)
