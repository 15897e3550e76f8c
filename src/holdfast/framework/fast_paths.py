"""What authors who need speed may implement: the same answers, for less.

Nothing here changes what a plugin decides. ``check_plugin`` proves each of these equal to the form
that every author writes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.framework.traits import Plugin
from holdfast.framework.values import AnyRows, Change, RawScores, Rows, State

if TYPE_CHECKING:
    from holdfast.columns.pod_info import PodInfo
    from holdfast.framework.view import View


class ReadsBeyondSpec(Plugin, Protocol):
    """Tell apart by less than ``reads`` what a plugin with the trait ``beyond_spec`` looks at."""

    def beyond(self, pod: PodInfo, view: View) -> Hashable:
        """What ``reads`` takes from outside the pod's spec, namespace and visible labels."""
        ...


class ScalarTwin(Plugin, Protocol):
    """Answer for one row in plain integers: what makes the next pod of a class cheap."""

    def row(self, state: State, row: int) -> tuple[int, float]:
        """The same verdict and raw score as filter and score give, for one row.

        A plugin that only filters answers 0 as its score, one that only scores 0 as verdict.
        """
        ...


class JudgesOne(Plugin, Protocol):
    """Answer for one row under a change in plain integers: what preemption asks by the thousand."""

    def verdict(self, state: State, row: int, change: Change) -> int:
        """The same verdict as filter gives, for one row."""
        ...


class Scales(Plugin, Protocol):
    """Normalize by the lowest and highest raw score alone, so that one row can be renewed."""

    def scale(self, state: State, raw: Any, low: float, high: float) -> Any:
        """Bring raw scores (an array, or one number) into 0..100, cell by cell."""
        ...


class Tabulates(Plugin, Protocol):
    """Score through a table, where rows are of few kinds: cheaper than score and normalize."""

    def tabulate(self, state: State, rows: Rows) -> tuple[Rows, RawScores] | None:
        """Where in a table each of ``rows`` finds its normalized score, and the table.

        Rows are all the feasible ones. None: there is no such table for them.
        """
        ...


class Tallies(Plugin, Protocol):
    """Count reasons over many rejected rows at once, so that nobody walks over nodes."""

    def tally(self, state: State, rows: Rows) -> Mapping[str, int]:
        """How many of these rows, all rejected by this plugin, give each reason."""
        ...


class GroupsReasons(Plugin, Protocol):
    """Tell rejected rows apart by their reasons, so that these are kept and not counted anew."""

    def groups(self, state: State, rows: AnyRows) -> NDArray[np.int64]:
        """A number for each of these rows; rows of the same number give the same reasons."""
        ...
