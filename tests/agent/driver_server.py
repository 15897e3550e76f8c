"""A DRA driver on real sockets, for tests: says what it is told, and counts what it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import grpc
import grpc.aio

from holdfast.node.kubelet_api import (
    DRA_PLUGIN,
    DRA_V1,
    DRA_V1BETA1,
    dra_classic_pb2,
    dra_classic_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    plugin_registration_pb2,
    plugin_registration_pb2_grpc,
)


class DriverServer:
    """Registers in ``directory/plugins_registry`` and serves in ``directory/plugins/NAME``.

    ``devices(claim)`` returns the devices of a claim in prepare. ``before_prepare`` is awaited
    first; what it raises is the answer.
    """

    def __init__(self, directory: Path, name: str = "gpu.example.com", *, suffix: str = "") -> None:
        self.name = name
        self.type = DRA_PLUGIN
        self.versions: list[str] = [DRA_V1]
        self.endpoint = directory / "plugins" / name / f"dra{suffix}.sock"
        self.listen_at = self.endpoint
        """Where it serves; ``endpoint`` is what it says."""
        self.registration = directory / "plugins_registry" / f"{name}{suffix}-reg.sock"
        self.devices: Callable[[dra_v1_pb2.Claim], list[dra_v1_pb2.Device]] = lambda claim: [
            dra_v1_pb2.Device(
                pool_name="n", device_name="d", cdi_device_ids=[f"example.com/gpu={claim.uid}"]
            )
        ]
        self.before_prepare: Callable[[], asyncio.Future | None] = lambda: None
        self.errors: dict[str, str] = {}
        """Errors by name of a claim, for prepare and unprepare."""
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        """Every call with the names of its claims."""
        self.prepared: set[str] = set()
        """Uids of the claims that are prepared now."""
        self.statuses: asyncio.Queue[plugin_registration_pb2.RegistrationStatus] = asyncio.Queue()
        self.info_delay = 0.0
        self._servers: list[grpc.aio.Server] = []

    async def __aenter__(self) -> DriverServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Serve; both sockets are made anew."""
        service = await self._listen(self.listen_at)
        dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(_V1(self), service)
        dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(_V1Beta1(self), service)
        dra_classic_pb2_grpc.add_NodeServicer_to_server(self.classic_service(), service)
        registration = await self._listen(self.registration)
        servicer = _Registration(self)
        plugin_registration_pb2_grpc.add_RegistrationServicer_to_server(servicer, registration)
        self._servers = [service, registration]
        for server in self._servers:
            await server.start()

    async def stop(self) -> None:
        """End at once, as a process that is killed; the sockets' files go too."""
        servers, self._servers = self._servers, []
        await asyncio.gather(*(server.stop(None) for server in servers))
        for path in (self.registration, self.listen_at):
            path.unlink(missing_ok=True)

    def classic_service(self) -> dra_classic_pb2_grpc.NodeServicer:
        """Return the service of classic DRA."""
        return _Classic(self)

    async def _listen(self, path: Path) -> grpc.aio.Server:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        server = grpc.aio.server()
        server.add_insecure_port(f"unix:{path}")
        return server

    async def prepare(self, claims: list[dra_v1_pb2.Claim]) -> dict[str, tuple[list, str]]:
        """Return devices and error of each claim."""
        self.calls.append(("prepare", tuple(claim.name for claim in claims)))
        if (waiting := self.before_prepare()) is not None:
            await waiting
        answers = {}
        for claim in claims:
            if error := self.errors.get(claim.name, ""):
                answers[claim.uid] = [], error
            else:
                self.prepared.add(claim.uid)
                answers[claim.uid] = self.devices(claim), ""
        return answers

    def unprepare(self, claims: list[dra_v1_pb2.Claim]) -> dict[str, str]:
        """Return the error of each claim."""
        self.calls.append(("unprepare", tuple(claim.name for claim in claims)))
        answers = {claim.uid: self.errors.get(claim.name, "") for claim in claims}
        self.prepared -= {uid for uid, error in answers.items() if not error}
        return answers


class _Registration(plugin_registration_pb2_grpc.RegistrationServicer):
    def __init__(self, driver: DriverServer) -> None:
        self._driver = driver

    async def GetInfo(self, request, context):
        driver = self._driver
        await asyncio.sleep(driver.info_delay)
        return plugin_registration_pb2.PluginInfo(
            type=driver.type,
            name=driver.name,
            endpoint=str(driver.endpoint),
            supported_versions=driver.versions,
        )

    async def NotifyRegistrationStatus(self, request, context):
        self._driver.statuses.put_nowait(request)
        return plugin_registration_pb2.RegistrationStatusResponse()


class _V1(dra_v1_pb2_grpc.DRAPluginServicer):
    messages = dra_v1_pb2
    version = DRA_V1

    def __init__(self, driver: DriverServer) -> None:
        self._driver = driver

    async def NodePrepareResources(self, request, context):
        assert self.version in self._driver.versions
        answers = await self._driver.prepare(list(request.claims))
        response = self.messages.NodePrepareResourcesResponse()
        for uid, (devices, error) in answers.items():
            response.claims[uid].error = error
            for device in devices:
                # v1beta1 has no shares; it ignores the field on the wire.
                response.claims[uid].devices.add().ParseFromString(device.SerializeToString())
        return response

    async def NodeUnprepareResources(self, request, context):
        response = self.messages.NodeUnprepareResourcesResponse()
        for uid, error in self._driver.unprepare(list(request.claims)).items():
            response.claims[uid].error = error
        return response


class _V1Beta1(_V1):
    messages = dra_v1beta1_pb2
    version = DRA_V1BETA1


class _Classic(dra_classic_pb2_grpc.NodeServicer):
    def __init__(self, driver: DriverServer) -> None:
        self._driver = driver

    async def NodePrepareResource(self, request, context):
        claim = dra_v1_pb2.Claim(
            namespace=request.namespace, uid=request.claim_uid, name=request.claim_name
        )
        await self._driver.prepare([claim])
        names = [f"example.com/classic={request.resource_handle}"]
        return dra_classic_pb2.NodePrepareResourceResponse(cdi_devices=names)

    async def NodeUnprepareResource(self, request, context):
        if request.claim_uid not in self._driver.prepared:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such claim")
        self._driver.prepared.discard(request.claim_uid)
        self._driver.calls.append(("unprepare", tuple(request.cdi_devices)))
        return dra_classic_pb2.NodeUnprepareResourceResponse()
