"""Calls to one endpoint of a driver, on a real socket."""

import grpc
import grpc.aio
import pytest

from agent.driver_server import DriverServer
from holdfast.node.agent.dra_calls import CLASSIC, DriverClaim, DriverEndpoint
from holdfast.node.agent.plugin_sockets import CallFailed
from holdfast.node.kubelet_api import DRA_V1


async def test_a_classic_driver_gets_the_handle_and_its_cdi_names_back(node_directory):
    async with DriverServer(node_directory) as driver:
        endpoint = DriverEndpoint(driver.name, str(driver.endpoint), CLASSIC)
        claim = DriverClaim("default", "c", "u", handle="h")
        (device,) = (await endpoint.prepare([claim]))["u"]
        assert device.cdi_devices == ("example.com/classic=h",)
        claim = DriverClaim("default", "c", "u", devices=(device,))
        await endpoint.unprepare([claim])
        assert driver.calls == [("prepare", ("c",)), ("unprepare", device.cdi_devices)]
        with pytest.raises(CallFailed) as error:
            await endpoint.unprepare([claim])
        assert error.value.not_found
        await endpoint.channel.close()


async def test_an_answer_that_cannot_be_read_is_a_failed_call(node_directory):
    answers = iter((b"\xff\xff garbage", b"\x0a\x05\x0a\x03\xff\xfe\xfd", b""))

    async def prepare(request, context):
        return next(answers)

    handler = grpc.unary_unary_rpc_method_handler(prepare)
    service = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
    generic = grpc.method_handlers_generic_handler(service, {"NodePrepareResources": handler})
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((generic,))
    server.add_insecure_port(f"unix:{node_directory}/dra.sock")
    await server.start()
    endpoint = DriverEndpoint("gpu.example.com", f"{node_directory}/dra.sock", DRA_V1)
    claims = [DriverClaim("default", "c", "u")]
    for said in ("cannot be read", "cannot be read", "skipped 1"):
        with pytest.raises(CallFailed, match=said):
            await endpoint.prepare(claims)
    with pytest.raises(CallFailed, match="NodeUnprepareResources: UNIMPLEMENTED"):
        await endpoint.unprepare(claims)
    await endpoint.channel.close()
    await server.stop(None)
