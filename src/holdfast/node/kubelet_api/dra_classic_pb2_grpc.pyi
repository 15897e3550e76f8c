"""Types of the stubs and servicers, for grpc.aio."""
from typing import Any
from collections.abc import AsyncIterator
from holdfast.node.kubelet_api import dra_classic_pb2 as _messages
from holdfast.node.kubelet_api.calls import StreamCall, UnaryCall

class NodeStub:
    def __init__(self, channel: Any) -> None: ...
    NodePrepareResource: UnaryCall[_messages.NodePrepareResourceRequest, _messages.NodePrepareResourceResponse]
    NodeUnprepareResource: UnaryCall[_messages.NodeUnprepareResourceRequest, _messages.NodeUnprepareResourceResponse]

class NodeServicer:
    async def NodePrepareResource(self, request: _messages.NodePrepareResourceRequest, context: Any) -> _messages.NodePrepareResourceResponse: ...
    async def NodeUnprepareResource(self, request: _messages.NodeUnprepareResourceRequest, context: Any) -> _messages.NodeUnprepareResourceResponse: ...

def add_NodeServicer_to_server(servicer: NodeServicer, server: Any) -> None: ...
