"""Types of the stubs and servicers, for grpc.aio."""
from typing import Any
from collections.abc import AsyncIterator
from holdfast.node.kubelet_api import plugin_registration_pb2 as _messages
from holdfast.node.kubelet_api.calls import StreamCall, UnaryCall

class RegistrationStub:
    def __init__(self, channel: Any) -> None: ...
    GetInfo: UnaryCall[_messages.InfoRequest, _messages.PluginInfo]
    NotifyRegistrationStatus: UnaryCall[_messages.RegistrationStatus, _messages.RegistrationStatusResponse]

class RegistrationServicer:
    async def GetInfo(self, request: _messages.InfoRequest, context: Any) -> _messages.PluginInfo: ...
    async def NotifyRegistrationStatus(self, request: _messages.RegistrationStatus, context: Any) -> _messages.RegistrationStatusResponse: ...

def add_RegistrationServicer_to_server(servicer: RegistrationServicer, server: Any) -> None: ...
