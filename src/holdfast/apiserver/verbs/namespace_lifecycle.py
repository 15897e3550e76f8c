"""Reject new objects in a namespace that does not exist or is terminating."""

from __future__ import annotations

from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema.stored_objects import is_terminating
from holdfast.errors import Cause, Details, Forbidden, NotFound
from holdfast.store import ObjectKey


def check_namespace_active(op: Operation, name: str) -> None:
    """Raise NotFound if the namespace does not exist, Forbidden if it is terminating."""
    space = op.request_info.namespace
    if not op.descriptor.resource.namespaced or not space:
        return
    namespace = op.context.store.latest(ObjectKey("", "namespaces", "", space))
    if namespace is None:
        raise NotFound(f'namespaces "{space}" not found', Details(name=space, kind="namespaces"))
    if is_terminating(namespace):
        key = op.descriptor.key(space, name)
        message = f"namespace {space} is being terminated"
        raise Forbidden(
            f"{key.display_name} is forbidden: unable to create new content in namespace {space} "
            "because it is being terminated",
            Details(
                name=name,
                group=key.group,
                kind=key.plural,
                causes=(Cause("metadata.namespace", message, "NamespaceTerminating"),),
            ),
        )
