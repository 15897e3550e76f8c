"""Types of the stubs and servicers, for grpc.aio."""
from typing import Any
from collections.abc import AsyncIterator
from holdfast.kubelet_api import dra_health_pb2 as _messages
from holdfast.kubelet_api.calls import StreamCall, UnaryCall

class DRAResourceHealthStub:
    def __init__(self, channel: Any) -> None: ...
    NodeWatchResources: StreamCall[_messages.NodeWatchResourcesRequest, _messages.NodeWatchResourcesResponse]

class DRAResourceHealthServicer:
    def NodeWatchResources(self, request: _messages.NodeWatchResourcesRequest, context: Any) -> AsyncIterator[_messages.NodeWatchResourcesResponse]: ...

def add_DRAResourceHealthServicer_to_server(servicer: DRAResourceHealthServicer, server: Any) -> None: ...
