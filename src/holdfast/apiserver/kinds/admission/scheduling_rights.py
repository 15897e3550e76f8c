"""Ask the authorizer for rights that exist in RBAC only."""

from __future__ import annotations

from holdfast.api.scheduling_rights import GROUP, SchedulingRight
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.wire.request_info import RequestInfo
from holdfast.errors import Details, Forbidden


def holds(op: Operation, right: SchedulingRight) -> bool:
    """Return whether the user has a right in the namespace of the request."""
    asked = RequestInfo(
        right.verb, "", GROUP, namespace=op.request_info.namespace, plural=right.resource
    )
    return op.context.authorizer.allows(op.user, asked)


def forbidden(op: Operation, name: str, message: str) -> Forbidden:
    """Build the 403 for an object of the request."""
    group, plural = op.descriptor.group_resource
    shown = f"{plural}.{group}" if group else plural
    details = Details(name=name, group=group, kind=plural)
    return Forbidden(f'{shown} "{name}" is forbidden: {message}', details)
