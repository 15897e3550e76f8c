"""What reading a configuration comes upon: mistakes, what is not built, what to warn of."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.configuration.document import KIND
from holdfast.errors import BadConfiguration, Cause, Details, NotBuilt, aggregate_message


class Findings:
    """Collected while reading; nothing is refused before everything has been looked at."""

    def __init__(self) -> None:
        self.mistakes: list[Cause] = []
        self.unbuilt: list[Cause] = []
        self.warnings: list[str] = []

    def wrong(self, *causes: Cause) -> None:
        """Note fields that cannot be as they are."""
        self.mistakes.extend(causes)

    def below(self, path: str, causes: Iterable[Cause]) -> None:
        """Note mistakes whose fields are named from ``path`` on."""
        for cause in causes:
            dot = "." if cause.field and not cause.field.startswith("[") else ""
            self.wrong(Cause(f"{path}{dot}{cause.field}", cause.message, cause.reason))

    def not_built(self, path: str, words: str) -> None:
        """Note a wish that is right and that Holdfast cannot fulfil yet."""
        self.unbuilt.append(Cause(path, words, "NotImplemented"))

    def warn(self, words: str) -> None:
        """Note what works and may not be meant."""
        self.warnings.append(words)

    def refuse_if_wrong(self) -> None:
        """Raise BadConfiguration, or NotBuilt if that is all, naming everything; or return."""
        causes = (*self.mistakes, *self.unbuilt)
        if not causes:
            return
        kind = BadConfiguration if self.mistakes else NotBuilt
        raise kind(aggregate_message(causes), Details(kind=KIND, causes=causes))
