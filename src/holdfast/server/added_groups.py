"""The groups that add something to the parts of the server that know all groups."""

from __future__ import annotations

from holdfast.server.added_group import AddedGroup
from holdfast.server.classic_dra import CLASSIC_DRA

ADDED_GROUPS: tuple[AddedGroup, ...] = (CLASSIC_DRA,)
