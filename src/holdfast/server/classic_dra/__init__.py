"""What classic DRA (KEP-3063) adds to the server: pod fields, roles, rights of nodes.

Lives here: what general parts of the server read as an ``AddedGroup``. May not live here: the kinds
(``kinds.classic_dra``), which are built like those of CRDs.
"""

from __future__ import annotations

from holdfast.api.classic_dra.forms import with_stored_claims, with_typed_claims
from holdfast.server.added_group import AddedGroup, PodSpecForms
from holdfast.server.classic_dra.fields import FIELDS
from holdfast.server.classic_dra.nodes import NODES
from holdfast.server.classic_dra.rights import RIGHTS

CLASSIC_DRA = AddedGroup(FIELDS, PodSpecForms(with_typed_claims, with_stored_claims), RIGHTS, NODES)
