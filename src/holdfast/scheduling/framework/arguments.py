"""Read plugin arguments (``pluginConfig[].args``) and reject unknown fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.api.field_errors import invalid
from holdfast.api.strict_decode import decode_struct
from holdfast.runtime.errors import BadConfiguration, Cause, Details, aggregate_message

T = TypeVar("T", bound="PluginArgs")
Args = Mapping[str, Any]
"""Arguments of a plugin as read from YAML, not validated."""


class PluginArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the typed arguments of a plugin."""

    api_version: str = ""
    kind: str = ""


class Arguments(list[Cause]):
    """The errors in the arguments of one plugin, with field paths below ``args``."""

    def __init__(self, plugin: str) -> None:
        super().__init__()
        self._plugin = plugin

    def read(self, kind: type[T], args: Mapping[str, Any]) -> T:
        """Decode the arguments; unknown fields and wrong types are added to the errors."""
        return decode_struct(kind, args, "", self)

    def check_weights(self, weights: Iterable[tuple[str, int]], path: str) -> None:
        """Add an error for each resource of a scoring strategy whose weight is out of range."""
        for i, (name, weight) in enumerate(weights):
            if not 0 < weight <= 100:
                message = f"resource weight of {name} not in valid range (0, 100]"
                self.append(invalid(f"{path}.resources[{i}].weight", weight, message))

    def refuse_if_wrong(self) -> None:
        """Raise BadConfiguration with all errors, if there are any."""
        if self:
            raise BadConfiguration(
                f'initializing plugin "{self._plugin}": {aggregate_message(self)}',
                Details(kind=f"{self._plugin}Args", causes=tuple(self)),
            )
