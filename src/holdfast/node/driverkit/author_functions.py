"""Call the functions of a driver's author: sync or async, with the arguments that they take."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.runtime.errors import BadConfiguration

F = TypeVar("F", bound=Callable[..., Any])


class AuthorFunction:
    """A function of the author; it may take fewer arguments than are offered."""

    def __init__(self, function: Callable[..., Any], name: str, *offered: str) -> None:
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self._count = _taken(function, name, offered)

    async def __call__(self, *arguments: Any) -> Any:
        """Call it; a sync function runs in a thread, so that it may block."""
        given = arguments[: self._count]
        if self._is_async:
            return await self._function(*given)
        result = await asyncio.to_thread(self._called, *given)
        return await result if inspect.isawaitable(result) else result

    def _called(self, *given: Any) -> Any:
        """Call a sync function; a generator runs in the thread too."""
        result = self._function(*given)
        return list(result) if inspect.isgenerator(result) else result


def plain(function: Callable[..., Any], name: str, *offered: str) -> Callable[..., Any]:
    """Return a function of the author that is called in the event loop: it must not wait."""
    if inspect.iscoroutinefunction(function):
        raise BadConfiguration(f"the function of @driver.{name} must not be async")
    count = _taken(function, name, offered)
    return lambda *arguments: function(*arguments[:count])


def _taken(function: Any, name: str, offered: tuple[str, ...]) -> int:
    """Return the number of offered arguments that a function takes; raises BadConfiguration."""
    shown = ", ".join(offered)
    if not callable(function):
        raise BadConfiguration(f"@driver.{name} is for a function ({shown})")
    count = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return len(offered)
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            if count == len(offered) and parameter.default is not parameter.empty:
                break
            count += 1
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            count = len(offered) + 1
    if count > len(offered):
        raise BadConfiguration(f"the function of @driver.{name} may take ({shown}) and no more")
    return count
