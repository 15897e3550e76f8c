"""Errors, unsupported settings and warnings, collected while a configuration is read."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.runtime.errors import BadConfiguration, Cause, Details, NotBuilt, aggregate_message
from holdfast.scheduling.configuration.document import KIND


class Problems:
    """Problems of one configuration; errors are raised together after everything was checked."""

    def __init__(self, kind: str = KIND) -> None:
        self._kind = kind
        self.errors: list[Cause] = []
        self.unbuilt: list[Cause] = []
        self.warnings: list[str] = []

    def add_errors(self, *causes: Cause) -> None:
        """Add invalid fields."""
        self.errors.extend(causes)

    def add_errors_below(self, path: str, causes: Iterable[Cause]) -> None:
        """Add errors whose field paths are relative to ``path``."""
        for cause in causes:
            dot = "." if cause.field and not cause.field.startswith("[") else ""
            self.add_errors(Cause(f"{path}{dot}{cause.field}", cause.message, cause.reason))

    def add_not_built(self, path: str, message: str) -> None:
        """Add a valid setting that Holdfast does not support yet."""
        self.unbuilt.append(Cause(path, message, "NotImplemented"))

    def add_warning(self, message: str) -> None:
        """Add a warning about a setting that works but is probably not intended."""
        self.warnings.append(message)

    def raise_if_any(self) -> None:
        """Raise BadConfiguration, or NotBuilt if there are no other errors, listing all of them."""
        causes = (*self.errors, *self.unbuilt)
        if not causes:
            return
        kind = BadConfiguration if self.errors else NotBuilt
        raise kind(aggregate_message(causes), Details(kind=self._kind, causes=causes))
