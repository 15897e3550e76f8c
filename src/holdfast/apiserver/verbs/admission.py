"""The order in which a write is completed and checked."""

from __future__ import annotations

from holdfast.api.decode import JsonObject
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema.object_schema import content_changed
from holdfast.apiserver.verbs import validation
from holdfast.apiserver.verbs.metadata import timestamp


async def admit(op: Operation, new: JsonObject, old: JsonObject | None) -> JsonObject:
    """Complete a new or changed object, let admission change it, refuse it if it is wrong.

    Nothing is waited for unless an admitter asks for it, so that a write is decided on the
    version it was read from.
    """
    descriptor = op.descriptor
    new = descriptor.storage_schema.default(new, timestamp(op.context.clock.now()))
    for admitter in descriptor.admission_plugins:
        if admitter.mutate and (waiting := admitter.mutate(op, new, old)) is not None:
            await waiting
    validation.check(op, new, old)
    for admitter in descriptor.admission_plugins:
        if admitter.validate and (waiting := admitter.validate(op, new, old)) is not None:
            await waiting
    _warn_of_unbuilt(op, new, old)
    return new


def _warn_of_unbuilt(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn clients, but not components of the cluster, of what is stored but not acted on.

    A change of nothing but metadata or status is not warned of.
    """
    unbuilt = op.descriptor.unimplemented
    if not unbuilt or op.request_info.subresource or op.user.is_component:
        return
    if old is None or content_changed(new, old):
        op.warnings.extend(unbuilt.warnings(new))
