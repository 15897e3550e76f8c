"""The kinds of ``authorization.k8s.io``: access reviews."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Handler, KindDescriptor
from holdfast.apiserver.kinds.reviews import review_access, review_self_access, review_self_rules
from holdfast.apiserver.kinds.untyped_resources import untyped_resource


def _review(
    plural: str, kind: str, handler: Handler, *, namespaced: bool = False
) -> KindDescriptor:
    group = "authorization.k8s.io"
    return KindDescriptor(
        untyped_resource(group, plural, kind, namespaced=namespaced, verbs=("create",)),
        handler=handler,
    )


KINDS = (
    _review(
        "localsubjectaccessreviews", "LocalSubjectAccessReview", review_access, namespaced=True
    ),
    _review("selfsubjectaccessreviews", "SelfSubjectAccessReview", review_self_access),
    _review("selfsubjectrulesreviews", "SelfSubjectRulesReview", review_self_rules),
    _review("subjectaccessreviews", "SubjectAccessReview", review_access),
)
