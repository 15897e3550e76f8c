"""The admission of a write: defaulting, mutating plugins, validation, validating plugins."""

from __future__ import annotations

from holdfast.api.decode import JsonObject
from holdfast.server.descriptor import AdmissionPlugin
from holdfast.server.operation import Operation
from holdfast.server.schema.object_schema import content_changed
from holdfast.server.verbs import validation
from holdfast.server.verbs.metadata import timestamp


async def admit(op: Operation, new: JsonObject, old: JsonObject | None) -> JsonObject:
    """Return the new object after defaulting and admission; raise an error if it is rejected.

    Nothing is awaited unless a plugin returns an awaitable, so that the object is written before
    another request can change it.
    """
    descriptor = op.descriptor
    new = descriptor.storage_schema.default(new, timestamp(op.context.clock.now()))
    plugins = _plugins(op)
    for plugin in plugins:
        if plugin.mutate and (awaitable := plugin.mutate(op, new, old)) is not None:
            await awaitable
    validation.check(op, new, old)
    for plugin in plugins:
        if plugin.validate and (awaitable := plugin.validate(op, new, old)) is not None:
            await awaitable
    _warn_of_unimplemented(op, new, old)
    return new


def admit_deletion(op: Operation, old: JsonObject) -> None:
    """Raise an error if a plugin rejects the deletion or eviction of an object."""
    for plugin in _plugins(op):
        if plugin.delete:
            plugin.delete(op, old)


def _plugins(op: Operation) -> tuple[AdmissionPlugin, ...]:
    return (*op.descriptor.admission_plugins, *op.context.registry.admission_plugins)


def _warn_of_unimplemented(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn clients, but not components of the cluster, of features without effect.

    Changes of metadata or status alone get no warning.
    """
    unbuilt = op.descriptor.unimplemented
    if not unbuilt or op.request_info.subresource or op.user.is_component:
        return
    if old is None or content_changed(new, old):
        op.warnings.extend(unbuilt.warnings(new))
