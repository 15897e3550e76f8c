"""Limit the requests in flight, and the memory of their bodies and answers, by user.

System users, other users and anonymous clients are counted apart, so that a flood by one kind
refuses none of the others; no user outside system:masters gets more than its own share.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from holdfast.apiserver.user import User
from holdfast.errors import Details, TooManyRequests
from holdfast.settings import FrontLimits

_SYSTEM, _OTHER, _ANONYMOUS = "system", "other", "anonymous"


def user_class(user: User) -> str:
    """Tell which kind of user this is.

    >>> user_class(User("system:node:a", ("system:nodes",))), user_class(User("ann"))
    ('system', 'other')
    """
    if user.is_anonymous:
        return _ANONYMOUS
    return _SYSTEM if user.is_system else _OTHER


class _Amounts:
    """What is in use, by kind of user and by user."""

    def __init__(self, most: dict[str, int], most_of_user: int) -> None:
        self._most = most
        self._most_of_user = most_of_user
        self._of_kind: Counter[str] = Counter()
        self._of_user: Counter[str] = Counter()

    def take(self, user: User, kind: str, amount: int) -> bool:
        """Count an amount as used; False, and nothing counted, if it exceeds a share."""
        if self._of_kind[kind] + amount > self._most[kind]:
            return False
        if not user.is_master and self._of_user[user.name] + amount > self._most_of_user:
            return False
        self.add(user, kind, amount)
        return True

    def add(self, user: User, kind: str, amount: int) -> None:
        """Count an amount as used, whatever the shares are."""
        self._of_kind[kind] += amount
        self._of_user[user.name] += amount

    def uses_nothing(self, user: User) -> bool:
        """Tell whether nothing is counted for a user."""
        return user.name not in self._of_user

    def give_back(self, user: User, kind: str, amount: int) -> None:
        self._of_kind[kind] -= amount
        self._of_user[user.name] -= amount
        if not self._of_user[user.name]:
            del self._of_user[user.name]


class InFlightLimits:
    """The requests in flight of one server, and the bytes of their bodies and large answers."""

    def __init__(self, limits: FrontLimits) -> None:
        self.requests = _Amounts(
            {
                _SYSTEM: limits.system_requests,
                _OTHER: limits.other_requests,
                _ANONYMOUS: limits.anonymous_requests,
            },
            limits.user_requests,
        )
        self.body_bytes = _Amounts(
            {_SYSTEM: limits.system_body_bytes, _OTHER: limits.other_body_bytes, _ANONYMOUS: 0},
            limits.user_body_bytes,
        )
        self.answer_bytes = _Amounts(
            {
                _SYSTEM: limits.system_answer_bytes,
                _OTHER: limits.other_answer_bytes,
                _ANONYMOUS: limits.other_answer_bytes,
            },
            limits.user_answer_bytes,
        )

    def acquire(self, user: User) -> RequestInFlight:
        """Count a request as in flight until its ``release``; raise 429 over the limit."""
        kind = user_class(user)
        if not self.requests.take(user, kind, 1):
            raise too_many()
        return RequestInFlight(self, user, kind)


@dataclass(slots=True)
class RequestInFlight:
    """One request and the memory reserved for its body and its answer."""

    _limits: InFlightLimits
    _user: User
    _kind: str
    _reserved: int = 0
    _answer: int = 0

    def reserve_body(self, size: int) -> None:
        """Reserve memory for a body before it is read; raise 429 over the limit."""
        if not self._limits.body_bytes.take(self._user, self._kind, size):
            raise too_many()
        self._reserved += size

    def reserve_response(self, size: int, *, refusable: bool) -> None:
        """Count an answer until it is sent; raise 429 over the limit if nothing was changed.

        A user that has no other large answer gets one of any size.
        """
        answers = self._limits.answer_bytes
        if not refusable or answers.uses_nothing(self._user):
            answers.add(self._user, self._kind, size)
        elif not answers.take(self._user, self._kind, size):
            raise too_many()
        self._answer += size

    def release(self) -> None:
        """Give everything back."""
        self._limits.requests.give_back(self._user, self._kind, 1)
        if self._reserved:
            self._limits.body_bytes.give_back(self._user, self._kind, self._reserved)
            self._reserved = 0
        if self._answer:
            self._limits.answer_bytes.give_back(self._user, self._kind, self._answer)
            self._answer = 0


def too_many() -> TooManyRequests:
    """Build the answer to a client that is over one of its limits."""
    return TooManyRequests(
        "too many requests, please try again later", Details(retry_after_seconds=1)
    )
