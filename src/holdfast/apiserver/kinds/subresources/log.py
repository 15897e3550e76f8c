"""Container logs: simulated containers write none, and the answer says so."""

from __future__ import annotations

from holdfast.apiserver.operation import Operation
from holdfast.client.transport import Response
from holdfast.errors import NotBuilt


async def read_log(op: Operation) -> Response:
    """Refuse to show a log, after checking that the pod is there."""
    if op.context.store.get(op.key) is None:
        raise op.not_found()
    raise NotBuilt(
        f'the log of pod "{op.call.name}" cannot be shown: reading container logs is not built '
        "yet; simulated containers write none"
    )
