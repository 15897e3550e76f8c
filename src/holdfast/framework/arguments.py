"""Read plugin arguments (``pluginConfig[].args``), refusing what a plugin does not know."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.errors import BadConfiguration, Cause, Details

_ENVELOPE = ("apiVersion", "kind")


class Arguments:
    """One plugin's arguments, with mistakes collected under their field paths."""

    def __init__(self, plugin: str, given: Mapping[str, Any], known: Collection[str]) -> None:
        self._plugin = plugin
        self._given = given
        self._causes: list[Cause] = []
        for name in given:
            if name not in known and name not in _ENVELOPE:
                self.wrong(name, f'unknown field "{name}"', "FieldValueNotSupported")

    def get(self, name: str, default: Any) -> Any:
        """An argument, or its default if it is absent or null."""
        value = self._given.get(name)
        return default if value is None else value

    def wrong(self, path: str, words: str, reason: str = "FieldValueInvalid") -> None:
        """Note that the field at ``path`` is wrong."""
        self._causes.append(Cause(path, words, reason))

    def refuse_if_wrong(self) -> None:
        """Raise BadConfiguration naming every wrong field, or return quietly."""
        if self._causes:
            listed = "; ".join(f"{c.field}: {c.message}" for c in self._causes)
            raise BadConfiguration(
                f'initializing plugin "{self._plugin}": {listed}',
                Details(kind=f"{self._plugin}Args", causes=tuple(self._causes)),
            )
