"""Types of the stubs and servicers, for grpc.aio."""
from typing import Any
from collections.abc import AsyncIterator
from holdfast.node.kubelet_api import dra_v1beta1_pb2 as _messages
from holdfast.node.kubelet_api.calls import StreamCall, UnaryCall

class DRAPluginStub:
    def __init__(self, channel: Any) -> None: ...
    NodePrepareResources: UnaryCall[_messages.NodePrepareResourcesRequest, _messages.NodePrepareResourcesResponse]
    NodeUnprepareResources: UnaryCall[_messages.NodeUnprepareResourcesRequest, _messages.NodeUnprepareResourcesResponse]

class DRAPluginServicer:
    async def NodePrepareResources(self, request: _messages.NodePrepareResourcesRequest, context: Any) -> _messages.NodePrepareResourcesResponse: ...
    async def NodeUnprepareResources(self, request: _messages.NodeUnprepareResourcesRequest, context: Any) -> _messages.NodeUnprepareResourcesResponse: ...

def add_DRAPluginServicer_to_server(servicer: DRAPluginServicer, server: Any) -> None: ...
