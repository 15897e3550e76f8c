"""Every exception Holdfast raises on purpose.

::

    HoldfastError
    ├── Retryable            a later retry may succeed; ``after`` says when
    │   ├── Conflict         409: the object was changed by another write
    │   ├── Expired          410: the requested history is compacted; list again
    │   ├── TooManyRequests  429
    │   └── Unavailable      5xx, a cut connection, a time-out
    │       └── TimedOut     504: the request was not complete in time
    └── Refused              the same call can never succeed
        ├── BadRequest       400: the request cannot be parsed
        ├── Unauthorized     401
        ├── Forbidden        403
        ├── NotFound         404
        ├── NotAllowed       405: no such verb on this resource
        ├── NotAcceptable    406
        ├── AlreadyExists    409 with reason AlreadyExists
        ├── TooLarge         413
        ├── Unsupported      415: a body of an unsupported media type
        ├── Invalid          422: a field is wrong; ``causes`` name it
        ├── NotBuilt         501: Holdfast does not implement this yet
        ├── BadConfiguration a configuration file or flag is wrong
        │   └── StoreDamaged the database file is damaged
        └── StoreLocked      another process uses the data directory

That a pod does not fit is never an exception: filters return verdicts.
A broken invariant is an ``AssertionError`` and stops the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """One wrong field and why it is wrong, an entry of ``Status.details.causes``."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def aggregate_message(errors: Iterable[object]) -> str:
    """Return the text of one error, or of several as upstream's aggregate.

    >>> aggregate_message([Cause("spec", "Required value")]), aggregate_message(["a", "b"])
    ('spec: Required value', '[a, b]')
    """
    listed = [str(one) for one in errors]
    return listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"


@dataclass(frozen=True, slots=True)
class Details:
    """The object that an error is about; ``kind`` is the plural resource name."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class HoldfastError(Exception):
    """Base class of all errors that Holdfast raises on purpose.

    ``code`` and ``reason`` are those of a Kubernetes Status, so that an error is the same over
    HTTP and in process.
    """

    code = 500
    reason = "InternalError"

    def __init__(self, message: str, details: Details | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details or Details()


class Retryable(HoldfastError):
    """A later retry may succeed; ``after`` is how many seconds to wait, if known."""

    def __init__(
        self, message: str, details: Details | None = None, *, after: float | None = None
    ) -> None:
        super().__init__(message, details)
        self.after = after


class Conflict(Retryable):
    """The object was changed by another write: read it again and plan again."""

    code, reason = 409, "Conflict"


class Expired(Retryable):
    """The requested history is no longer stored: list again."""

    code, reason = 410, "Expired"


class TooManyRequests(Retryable):
    """The server is overloaded, or a disruption budget forbids an eviction."""

    code, reason = 429, "TooManyRequests"


class Unavailable(Retryable):
    """The server failed, timed out or closed the connection; a write may have been stored."""

    code, reason = 503, "ServiceUnavailable"


class TimedOut(Unavailable):
    """The request was not complete in the time allowed."""

    code, reason = 504, "Timeout"


class Refused(HoldfastError):
    """The same call can never succeed."""


class BadRequest(Refused):
    """The request cannot be parsed."""

    code, reason = 400, "BadRequest"


class Unauthorized(Refused):
    """The request has no valid credentials."""

    code, reason = 401, "Unauthorized"


class Forbidden(Refused):
    """The user of the request is not allowed to do this."""

    code, reason = 403, "Forbidden"


class NotFound(Refused):
    """No such object, or no such resource."""

    code, reason = 404, "NotFound"


class NotAllowed(Refused):
    """The resource exists but does not support this verb."""

    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(Refused):
    """The server supports none of the media types that the client accepts."""

    code, reason = 406, "NotAcceptable"


class AlreadyExists(Refused):
    """An object of that name already exists."""

    code, reason = 409, "AlreadyExists"


class TooLarge(Refused):
    """The body or the object is over the limit."""

    code, reason = 413, "RequestEntityTooLarge"


class Unsupported(Refused):
    """The media type of the body is not supported."""

    code, reason = 415, "UnsupportedMediaType"


class Invalid(Refused):
    """One or more fields are wrong; ``details.causes`` lists them."""

    code, reason = 422, "Invalid"


class NotBuilt(Refused):
    """Holdfast does not implement this yet."""

    code, reason = 501, "NotImplemented"


class BadConfiguration(Refused):
    """A configuration file or flag is wrong; the message says where."""


class StoreDamaged(BadConfiguration):
    """The database file is damaged; the message names it and says what to do."""


class StoreLocked(Refused):
    """Another process uses the data directory."""


CAUSE_LIMIT = 100
"""The largest number of wrong fields that one error lists."""


@dataclass(slots=True)
class FieldErrors:
    """Collects the wrong fields of one object, to raise one error for all of them.

    Of more than ``CAUSE_LIMIT`` only the first are listed.
    """

    causes: list[Cause] = field(default_factory=list)

    def add(self, path: str, message: str, reason: str = "FieldValueInvalid") -> None:
        """Add a wrong field."""
        self.causes.append(Cause(path, message, reason))

    def raise_if_any(self, kind: str, name: str, group: str = "") -> None:
        """Raise Invalid with all causes in upstream's wording, if there are any."""
        if not self.causes:
            return
        shown = self.causes[:CAUSE_LIMIT]
        more = ["further errors are not shown"] if len(self.causes) > CAUSE_LIMIT else []
        message = aggregate_message([*shown, *more])
        qualified = f"{kind}.{group}" if group else kind
        raise Invalid(
            f'{qualified} "{name}" is invalid: {message}',
            Details(name=name, group=group, kind=kind, causes=tuple(shown)),
        )


BY_REASON: dict[str, type[HoldfastError]] = {
    c.reason: c
    for c in (
        Conflict, Expired, TooManyRequests, Unavailable, BadRequest, Unauthorized, Forbidden,
        NotFound, NotAllowed, NotAcceptable, AlreadyExists, TooLarge, Unsupported, Invalid,
        NotBuilt,
    )
}  # fmt: skip
BY_CODE: dict[int, type[HoldfastError]] = {
    400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 405: NotAllowed,
    406: NotAcceptable, 409: Conflict, 410: Expired, 413: TooLarge, 415: Unsupported,
    422: Invalid, 429: TooManyRequests, 501: NotBuilt,
}  # fmt: skip


def status_of(error: HoldfastError) -> dict[str, Any]:
    """Return an error as a Kubernetes Status, keys in upstream's order, without empty ones."""
    d = error.details
    details: dict[str, Any] = {
        k: v for k, v in (("name", d.name), ("group", d.group), ("kind", d.kind), ("uid", d.uid))
        if v
    }  # fmt: skip
    if d.causes:
        details["causes"] = [
            {"reason": c.reason, "message": c.message} | ({"field": c.field} if c.field else {})
            for c in d.causes
        ]
    if d.retry_after_seconds:
        details["retryAfterSeconds"] = d.retry_after_seconds
    status: dict[str, Any] = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": error.message, "reason": error.reason,
    }  # fmt: skip
    if details:
        status["details"] = details
    return status | {"code": error.code}


def from_status(code: int, status: dict[str, Any]) -> HoldfastError:
    """Return the exception of a Status, or of an HTTP status code alone."""
    message = status.get("message") or f"the server answered HTTP {code}"
    raw = status.get("details") or {}
    details = Details(
        name=raw.get("name", ""), group=raw.get("group", ""), kind=raw.get("kind", ""),
        uid=raw.get("uid", ""),
        causes=tuple(
            Cause(c.get("field", ""), c.get("message", ""), c.get("reason", ""))
            for c in raw.get("causes") or ()
        ),
        retry_after_seconds=raw.get("retryAfterSeconds", 0),
    )  # fmt: skip
    kind = BY_REASON.get(status.get("reason", "")) or BY_CODE.get(code) or Unavailable
    if issubclass(kind, Retryable):
        return kind(message, details, after=details.retry_after_seconds or None)
    return kind(message, details)
