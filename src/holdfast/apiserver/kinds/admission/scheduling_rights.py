"""Ask the authorizer for rights that exist in RBAC only."""

from __future__ import annotations

from holdfast.api.scheduling_rights import GROUP, SchedulingRight
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.wire.request_info import RequestInfo


def holds(op: Operation, right: SchedulingRight) -> bool:
    """Return whether the user has a right in the namespace of the request."""
    asked = RequestInfo(
        right.verb, "", GROUP, namespace=op.request_info.namespace, plural=right.resource
    )
    return op.context.authorizer.allows(op.user, asked)
