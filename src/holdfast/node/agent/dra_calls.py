"""Calls to one endpoint of a DRA driver, in the API version that it supports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import grpc.aio

from holdfast.node.agent.plugin_sockets import CallFailed, call, open_channel, shortened
from holdfast.node.kubelet_api import (
    DRA_V1,
    DRA_V1BETA1,
    dra_classic_pb2,
    dra_v1_pb2,
    dra_v1beta1_pb2,
)
from holdfast.node.kubelet_api.dra_classic_pb2_grpc import NodeStub
from holdfast.node.kubelet_api.dra_v1_pb2_grpc import DRAPluginStub
from holdfast.node.kubelet_api.dra_v1beta1_pb2_grpc import DRAPluginStub as DRAPluginBetaStub

CALL_SECONDS = 45.0
CLASSIC = "v1alpha1.Node"


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device of a claim as its driver prepared it."""

    cdi_devices: tuple[str, ...] = ()
    request_names: tuple[str, ...] = ()
    """The requests of the claim that the device serves; all when empty."""
    pool: str = ""
    device: str = ""
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class DriverClaim:
    """A claim in a call to a driver."""

    namespace: str
    name: str
    uid: str
    handle: str = ""
    """The data of the driver's controller in the allocation; classic DRA only."""
    devices: tuple[PreparedDevice, ...] = ()
    """The result of prepare; classic drivers get the CDI names back."""


@dataclass(frozen=True, slots=True)
class _Answer:
    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


_Answers = Mapping[str, _Answer]


class _Service(Protocol):
    async def prepare(self, claims: Sequence[DriverClaim], timeout: float) -> _Answers: ...

    async def unprepare(self, claims: Sequence[DriverClaim], timeout: float) -> _Answers: ...


class _Structured:
    """``DRAPlugin``, all claims in one call; v1beta1 has the messages of v1, without shares."""

    def __init__(self, messages: Any, stub: DRAPluginStub | DRAPluginBetaStub) -> None:
        self._messages = messages
        self._stub: Any = stub

    async def prepare(self, claims: Sequence[DriverClaim], timeout: float) -> _Answers:
        request = self._messages.NodePrepareResourcesRequest(claims=self._listed(claims))
        response = await call(self._stub.NodePrepareResources, request, timeout)
        return {
            uid: _Answer(tuple(_device(each) for each in claim.devices), claim.error)
            for uid, claim in response.claims.items()
        }

    async def unprepare(self, claims: Sequence[DriverClaim], timeout: float) -> _Answers:
        request = self._messages.NodeUnprepareResourcesRequest(claims=self._listed(claims))
        response = await call(self._stub.NodeUnprepareResources, request, timeout)
        return {uid: _Answer(error=claim.error) for uid, claim in response.claims.items()}

    def _listed(self, claims: Sequence[DriverClaim]) -> list[Any]:
        claim = self._messages.Claim
        return [claim(namespace=each.namespace, uid=each.uid, name=each.name) for each in claims]


class _Classic:
    """``v1alpha1.Node``, one call for each claim."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = NodeStub(channel)

    async def prepare(self, claims: Sequence[DriverClaim], timeout: float) -> _Answers:
        answers = {}
        for claim in claims:
            request = dra_classic_pb2.NodePrepareResourceRequest(
                namespace=claim.namespace,
                claim_uid=claim.uid,
                claim_name=claim.name,
                resource_handle=claim.handle,
            )
            response = await call(self._stub.NodePrepareResource, request, timeout)
            answers[claim.uid] = _Answer((PreparedDevice(tuple(response.cdi_devices)),))
        return answers

    async def unprepare(self, claims: Sequence[DriverClaim], timeout: float) -> _Answers:
        for claim in claims:
            request = dra_classic_pb2.NodeUnprepareResourceRequest(
                namespace=claim.namespace,
                claim_uid=claim.uid,
                claim_name=claim.name,
                cdi_devices=[name for device in claim.devices for name in device.cdi_devices],
            )
            await call(self._stub.NodeUnprepareResource, request, timeout)
        return {claim.uid: _Answer() for claim in claims}


def _device(device: dra_v1_pb2.Device) -> PreparedDevice:
    return PreparedDevice(
        tuple(device.cdi_device_ids),
        tuple(device.request_names),
        device.pool_name,
        device.device_name,
        getattr(device, "share_id", "") or None,
    )


SERVICES: Mapping[str, Callable[[grpc.aio.Channel], _Service]] = {
    DRA_V1: lambda channel: _Structured(dra_v1_pb2, DRAPluginStub(channel)),
    DRA_V1BETA1: lambda channel: _Structured(dra_v1beta1_pb2, DRAPluginBetaStub(channel)),
    CLASSIC: _Classic,
}


class DriverEndpoint:
    """One socket of a driver."""

    def __init__(self, driver: str, path: str, service: str, seconds: float = CALL_SECONDS) -> None:
        self.driver = driver
        self.path = path
        self.classic = service == CLASSIC
        self.channel = open_channel(path)
        self.connected = False
        self.calls = 0
        """Calls in progress."""
        self._service = SERVICES[service](self.channel)
        self._seconds = seconds

    async def prepare(
        self, claims: Sequence[DriverClaim]
    ) -> Mapping[str, tuple[PreparedDevice, ...]]:
        """Prepare claims and return the devices of each uid; raises CallFailed."""
        answers = await self._call("NodePrepareResources", self._service.prepare, claims)
        return {uid: answer.devices for uid, answer in answers.items()}

    async def unprepare(self, claims: Sequence[DriverClaim]) -> None:
        """Unprepare claims; raises CallFailed."""
        await self._call("NodeUnprepareResources", self._service.unprepare, claims)

    async def _call(
        self,
        method: str,
        send: Callable[[Sequence[DriverClaim], float], Awaitable[_Answers]],
        claims: Sequence[DriverClaim],
    ) -> _Answers:
        self.calls += 1
        try:
            answers = await send(claims, self._seconds)
        except CallFailed as error:
            raise CallFailed(f"{method}: {error}", not_found=error.not_found) from error
        finally:
            self.calls -= 1
        _check(method, claims, answers)
        return answers


def _check(method: str, claims: Sequence[DriverClaim], answers: _Answers) -> None:
    """Raise CallFailed unless each claim, and no other, was answered without an error."""
    names = {claim.uid: claim.name for claim in claims}
    if unknown := sorted(answers.keys() - names.keys()):
        uid = shortened(unknown[0], 64)
        raise CallFailed(f"{method} returned a result for the unknown claim UID {uid}")
    for uid, name in names.items():
        if uid in answers and (error := answers[uid].error):
            raise CallFailed(f"{method} failed for ResourceClaim {name}: {shortened(error)}")
    if skipped := len(names) - len(answers):
        raise CallFailed(f"{method} skipped {skipped} ResourceClaims")
