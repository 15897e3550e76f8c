"""The kinds of ``authentication.k8s.io``: reviews of users and tokens."""

from __future__ import annotations

from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.apiserver.kinds.reviews import review_self, review_token
from holdfast.apiserver.kinds.untyped_resources import untyped_resource

_GROUP = "authentication.k8s.io"
_SELF_REVIEWS = untyped_resource(
    _GROUP, "selfsubjectreviews", "SelfSubjectReview", namespaced=False, verbs=("create",)
)
_TOKEN_REVIEWS = untyped_resource(
    _GROUP, "tokenreviews", "TokenReview", namespaced=False, verbs=("create",)
)

KINDS = (
    KindDescriptor(_SELF_REVIEWS, handler=review_self),
    KindDescriptor(_TOKEN_REVIEWS, handler=review_token),
)
