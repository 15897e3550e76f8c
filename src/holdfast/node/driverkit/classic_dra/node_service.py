"""Serve the node part of a classic driver: ``v1alpha1.Node``, one call for each claim."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

import grpc.aio

from holdfast.node.driverkit.checkpoint import PreparedClaim
from holdfast.node.kubelet_api import dra_classic_pb2, dra_classic_pb2_grpc
from holdfast.runtime.errors import HoldfastError, NotFound

CLASSIC_VERSION = "1.0.0"
"""The version that a driver registers if it serves classic claims."""
T = TypeVar("T")
log = logging.getLogger(__name__)


class Preparation(Protocol):
    """The part of ``ClaimPreparation`` that the service needs."""

    async def prepare_classic(
        self, namespace: str, name: str, uid: str, handle: str
    ) -> PreparedClaim:
        """Prepare a claim."""
        ...

    async def unprepare(self, uid: str) -> None:
        """Undo the preparation of a claim."""
        ...


class _Node(dra_classic_pb2_grpc.NodeServicer):
    """Prepares and unprepares claims; an error is the status of the call."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation

    async def NodePrepareResource(
        self, request: dra_classic_pb2.NodePrepareResourceRequest, context: Any
    ) -> dra_classic_pb2.NodePrepareResourceResponse:
        prepared = await self._answered(
            self._preparation.prepare_classic(
                request.namespace, request.claim_name, request.claim_uid, request.resource_handle
            ),
            f"prepare {request.namespace}/{request.claim_name}",
            context,
        )
        names = [name for ids in prepared.cdi_ids for name in ids]
        return dra_classic_pb2.NodePrepareResourceResponse(cdi_devices=names)

    async def NodeUnprepareResource(
        self, request: dra_classic_pb2.NodeUnprepareResourceRequest, context: Any
    ) -> dra_classic_pb2.NodeUnprepareResourceResponse:
        await self._answered(
            self._preparation.unprepare(request.claim_uid),
            f"unprepare {request.namespace}/{request.claim_name}",
            context,
        )
        return dra_classic_pb2.NodeUnprepareResourceResponse()

    async def _answered(self, work: Awaitable[T], what: str, context: Any) -> T:
        try:
            return await work
        except HoldfastError as error:
            log.warning("%s: %s", what, error)
            missing = isinstance(error, NotFound)
            code = grpc.StatusCode.NOT_FOUND if missing else grpc.StatusCode.INTERNAL
            await context.abort(code, str(error))
            raise


def serve_classic(server: grpc.aio.Server, preparation: Preparation) -> None:
    """Add the service to a server."""
    dra_classic_pb2_grpc.add_NodeServicer_to_server(_Node(preparation), server)
