"""The kinds of ``authentication.k8s.io``: questions about who a client is."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Served
from holdfast.apiserver.kinds.reviews import review_token, who_am_i
from holdfast.apiserver.kinds.rows import row

_GROUP = "authentication.k8s.io"
_SELF_REVIEWS = row(
    _GROUP, "selfsubjectreviews", "SelfSubjectReview", namespaced=False, verbs=("create",)
)
_TOKEN_REVIEWS = row(_GROUP, "tokenreviews", "TokenReview", namespaced=False, verbs=("create",))

KINDS = (
    Served(_SELF_REVIEWS, answered_by=who_am_i),
    Served(_TOKEN_REVIEWS, answered_by=review_token),
)
