"""Limit the requests in flight, and the memory of their bodies and responses, by user.

System users, other users and anonymous clients have separate limits, so that a flood by one class
does not reject requests of another; each user outside system:masters has a limit too. With one
limit for all clients, 650 half-sent anonymous POSTs gave the admin and the nodes' heartbeats 429
for a minute, and 200 half-sent bodies of 3 MB took a gigabyte (decision 0009). So memory for a body
is reserved before the body is read.

Large responses count until they are sent: 40 lists of 32 MB that their client did not read made
1.3 GB. A user without another large response gets one of any size. Otherwise a list larger than the
limit could never be read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from holdfast.runtime.errors import Details, TooManyRequests
from holdfast.runtime.settings import ServerLimits
from holdfast.server.user import User

_SYSTEM, _OTHER, _ANONYMOUS = "system", "other", "anonymous"


def user_class(user: User) -> str:
    """Return the class of a user: system, other or anonymous.

    >>> user_class(User("system:node:a", ("system:nodes",))), user_class(User("ann"))
    ('system', 'other')
    """
    if user.is_anonymous:
        return _ANONYMOUS
    return _SYSTEM if user.is_system else _OTHER


class _Usage:
    """Amounts in use, by user class and by user."""

    def __init__(self, limits_by_class: dict[str, int], limit_per_user: int) -> None:
        self._limits_by_class = limits_by_class
        self._limit_per_user = limit_per_user
        self._by_class: Counter[str] = Counter()
        self._by_user: Counter[str] = Counter()

    def take(self, user: User, kind: str, amount: int) -> bool:
        """Add an amount if it is within the limits; return whether it was added."""
        if self._by_class[kind] + amount > self._limits_by_class[kind]:
            return False
        if not user.is_control_plane and self._by_user[user.name] + amount > self._limit_per_user:
            return False
        self.add(user, kind, amount)
        return True

    def add(self, user: User, kind: str, amount: int) -> None:
        """Add an amount, even over the limits."""
        self._by_class[kind] += amount
        self._by_user[user.name] += amount

    def is_unused(self, user: User) -> bool:
        """Return whether nothing is in use by a user."""
        return user.name not in self._by_user

    def release_amount(self, user: User, kind: str, amount: int) -> None:
        self._by_class[kind] -= amount
        self._by_user[user.name] -= amount
        if not self._by_user[user.name]:
            del self._by_user[user.name]


class InFlightLimits:
    """The requests in flight of one server, and the bytes of their bodies and large responses."""

    def __init__(self, limits: ServerLimits) -> None:
        self.requests = _Usage(
            {
                _SYSTEM: limits.system_requests,
                _OTHER: limits.other_requests,
                _ANONYMOUS: limits.anonymous_requests,
            },
            limits.user_requests,
        )
        self.body_bytes = _Usage(
            {_SYSTEM: limits.system_body_bytes, _OTHER: limits.other_body_bytes, _ANONYMOUS: 0},
            limits.user_body_bytes,
        )
        self.response_bytes = _Usage(
            {
                _SYSTEM: limits.system_response_bytes,
                _OTHER: limits.other_response_bytes,
                _ANONYMOUS: limits.other_response_bytes,
            },
            limits.user_response_bytes,
        )

    def acquire(self, user: User) -> RequestInFlight:
        """Count a request as in flight until ``release``; raise TooManyRequests over the limit."""
        kind = user_class(user)
        if not self.requests.take(user, kind, 1):
            raise too_many()
        return RequestInFlight(self, user, kind)


@dataclass(slots=True)
class RequestInFlight:
    """One request, and the memory reserved for its body and its response."""

    _limits: InFlightLimits
    _user: User
    _kind: str
    _reserved: int = 0
    _response_bytes: int = 0

    def reserve_body(self, size: int) -> None:
        """Reserve memory for a body before it is read; raise TooManyRequests over the limit."""
        if not self._limits.body_bytes.take(self._user, self._kind, size):
            raise too_many()
        self._reserved += size

    def reserve_response(self, size: int, *, refusable: bool) -> None:
        """Reserve memory for a response; raise TooManyRequests over the limit if ``refusable``.

        A user without another large response gets one of any size.
        """
        usage = self._limits.response_bytes
        if not refusable or usage.is_unused(self._user):
            usage.add(self._user, self._kind, size)
        elif not usage.take(self._user, self._kind, size):
            raise too_many()
        self._response_bytes += size

    def release(self) -> None:
        """End the request and release its memory."""
        self._limits.requests.release_amount(self._user, self._kind, 1)
        if self._reserved:
            self._limits.body_bytes.release_amount(self._user, self._kind, self._reserved)
            self._reserved = 0
        if self._response_bytes:
            self._limits.response_bytes.release_amount(self._user, self._kind, self._response_bytes)
            self._response_bytes = 0


def too_many() -> TooManyRequests:
    """Build the 429 for a client over one of its limits."""
    return TooManyRequests(
        "too many requests, please try again later", Details(retry_after_seconds=1)
    )
