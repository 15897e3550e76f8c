"""The node part of a classic driver on real sockets, for tests; each claim gets a CDI file."""

import grpc

from agent.driver_server import DriverServer
from holdfast.node.cdi.files import file_name, write_spec
from holdfast.node.cdi.spec import CdiDevice, CdiSpec, ContainerEdits
from holdfast.node.kubelet_api import CLASSIC_PLUGIN, dra_classic_pb2, dra_classic_pb2_grpc


class ClassicDriverServer(DriverServer):
    """A driver whose devices reach containers as a variable ``CLAIM_<name>`` with the handle."""

    def __init__(self, directory, name="gpu.example.com", **options):
        super().__init__(directory, name, **options)
        self.type, self.versions = CLASSIC_PLUGIN, ["1.0.0"]
        self.cdi = directory / "cdi"
        self.fail = {"prepare": [], "unprepare": []}
        """Codes that the next calls answer, one each; None for success."""
        self.handles = []
        """What every prepare was given."""
        self.removed = []
        """CDI names that every unprepare was given."""

    def classic_service(self):
        return _Node(self)

    def cdi_file(self, uid):
        return self.cdi / file_name(self.name, uid)

    @property
    def sequence(self):
        """The calls, as ``prepare:NAME`` and ``unprepare:NAME``."""
        return [f"{call}:{name}" for call, (name,) in self.calls]


class _Node(dra_classic_pb2_grpc.NodeServicer):
    def __init__(self, driver):
        self._driver = driver

    async def NodePrepareResource(self, request, context):
        driver = self._driver
        driver.handles.append(request.resource_handle)
        await self._called("prepare", request, context)
        name = f"claim-{request.claim_uid}"
        env = f"CLAIM_{request.claim_name.replace('-', '_')}={request.resource_handle[:20]}"
        device = CdiDevice(name=name, container_edits=ContainerEdits(env=(env,)))
        spec = CdiSpec(kind="example.com/classic", devices=(device,))
        write_spec(spec, driver.cdi_file(request.claim_uid))
        driver.prepared.add(request.claim_uid)
        return dra_classic_pb2.NodePrepareResourceResponse(
            cdi_devices=[f"example.com/classic={name}"]
        )

    async def NodeUnprepareResource(self, request, context):
        driver = self._driver
        driver.removed.append(tuple(request.cdi_devices))
        await self._called("unprepare", request, context)
        driver.cdi_file(request.claim_uid).unlink(missing_ok=True)
        driver.prepared.discard(request.claim_uid)
        return dra_classic_pb2.NodeUnprepareResourceResponse()

    async def _called(self, call, request, context):
        driver = self._driver
        driver.calls.append((call, (request.claim_name,)))
        if (waiting := driver.before_prepare()) is not None:
            await waiting
        if driver.fail[call]:
            code = driver.fail[call].pop(0)
            if code is None:
                return
            await context.abort(code, f"injected {code.name}")


UNAVAILABLE, NOT_FOUND = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND
