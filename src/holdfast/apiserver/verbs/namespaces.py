"""Nothing is created in a namespace that is missing or on its way out."""

from __future__ import annotations

from holdfast.apiserver.operation import Context, Operation
from holdfast.apiserver.schema.stored_objects import decode
from holdfast.errors import Cause, Details, Forbidden, NotFound
from holdfast.store import ObjectKey


def check_namespace_lives(op: Operation, name: str) -> None:
    """Refuse to create an object in a namespace that is missing (404) or terminating (403)."""
    space = op.call.namespace
    if not op.served.resource.namespaced or not space:
        return
    if not namespace_exists(op.context, space):
        raise NotFound(f'namespaces "{space}" not found', Details(name=space, kind="namespaces"))
    if is_terminating(op.context, space):
        key = op.served.key(space, name)
        words = f"namespace {space} is being terminated"
        raise Forbidden(
            f"{key.words} is forbidden: unable to create new content in namespace {space} "
            "because it is being terminated",
            Details(
                name=name,
                group=key.group,
                kind=key.plural,
                causes=(Cause("metadata.namespace", words, "NamespaceTerminating"),),
            ),
        )


def namespace_exists(context: Context, name: str) -> bool:
    """Tell whether a namespace is there, terminating or not."""
    return context.store.latest(ObjectKey("", "namespaces", "", name)) is not None


def is_terminating(context: Context, name: str) -> bool:
    """Tell whether a namespace is being deleted."""
    stored = context.store.latest(ObjectKey("", "namespaces", "", name))
    if stored is None:
        return False
    # The bytes are asked first: almost every namespace is alive and need not be decoded.
    if b'"deletionTimestamp"' not in stored.value:
        return False
    return bool(decode(stored)["metadata"].get("deletionTimestamp"))
