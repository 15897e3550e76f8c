"""The kinds of ``authorization.k8s.io``: questions about what a client may do."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Handler, Served
from holdfast.apiserver.kinds.reviews import may_i, may_they, what_may_i
from holdfast.apiserver.kinds.rows import row


def _review(plural: str, kind: str, answer: Handler, *, namespaced: bool = False) -> Served:
    group = "authorization.k8s.io"
    return Served(
        row(group, plural, kind, namespaced=namespaced, verbs=("create",)), answered_by=answer
    )


KINDS = (
    _review("localsubjectaccessreviews", "LocalSubjectAccessReview", may_they, namespaced=True),
    _review("selfsubjectaccessreviews", "SelfSubjectAccessReview", may_i),
    _review("selfsubjectrulesreviews", "SelfSubjectRulesReview", what_may_i),
    _review("subjectaccessreviews", "SubjectAccessReview", may_they),
)
