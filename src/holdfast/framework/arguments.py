"""Read plugin arguments (``pluginConfig[].args``), refusing what a plugin does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.api.strict_decode import decode_struct
from holdfast.errors import BadConfiguration, Cause, Details, aggregate_message

T = TypeVar("T", bound="PluginArgs")
Args = Mapping[str, Any]
"""Arguments of a plugin before it reads them."""


class PluginArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments of a plugin as they stand in a file."""

    api_version: str = ""
    kind: str = ""


class Arguments(list[Cause]):
    """What is wrong with the arguments of one plugin, by field paths below ``args``."""

    def __init__(self, plugin: str) -> None:
        super().__init__()
        self._plugin = plugin

    def read(self, kind: type[T], given: Mapping[str, Any]) -> T:
        """Read the arguments, noting fields nobody knows and values of the wrong type."""
        return decode_struct(kind, given, "", self)

    def refuse_if_wrong(self) -> None:
        """Raise BadConfiguration naming every wrong field, or return quietly."""
        if self:
            raise BadConfiguration(
                f'initializing plugin "{self._plugin}": {aggregate_message(self)}',
                Details(kind=f"{self._plugin}Args", causes=tuple(self)),
            )
