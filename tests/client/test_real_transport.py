"""The transport suite and an informer on a real kube-apiserver."""

import asyncio
import random

import pytest

from client.recording_handler import RecordingHandler
from client.transport_suite import TransportSuite, a_lease
from holdfast.api.scheme import LEASES, NAMESPACES
from holdfast.client import kubeconfig
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.informer import Informer
from holdfast.runtime.clock import SystemClock
from holdfast.testing import Chances, FaultyTransport, a_namespace
from real.control_plane import ControlPlane, program

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not (program("kube-apiserver") and program("etcd")),
        reason="no kube-apiserver and etcd: run `make binaries`",
    ),
]


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory):
    plane = ControlPlane(tmp_path_factory.mktemp("real")).start()
    yield plane
    plane.stop()


@pytest.fixture
async def transport(control_plane):
    made = HttpTransport(await kubeconfig.load(control_plane.kubeconfig))
    yield made
    await made.close()


class TestReal(TransportSuite):
    @pytest.fixture
    def let_pass(self):
        return asyncio.sleep

    @pytest.fixture
    def compact(self):
        pytest.skip("the suite does not compact etcd")


async def caught_up(informer, client, namespace, name):
    """Create a lease and wait until the informer reports it."""
    told = asyncio.Event()
    informer.add_handler(lambda kind, old, new: new and new.name == name and told.set())
    await client.create(LEASES, a_lease(name, namespace), namespace)
    async with asyncio.timeout(60):
        await told.wait()


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_informer_on_a_real_server_with_faults(transport, streaming):
    client = Client(transport)
    namespace = f"informer-{'s' if streaming else 'p'}"
    await client.create(NAMESPACES, a_namespace(namespace))
    chances = Chances(unavailable=0.1, cut=0.4, torn=0.2, ended=0.3, lines=20)
    faulty = FaultyTransport(transport, chances=chances, rng=random.Random(1))
    record = RecordingHandler()
    informer = Informer(
        Client(faulty), LEASES, clock=SystemClock(), namespace=namespace, on_event=record,
        rng=random.Random(2),
    )  # fmt: skip
    informer._use_watch_list = streaming
    informer.start()
    rng = random.Random(3)
    alive = set()
    for n in range(80):
        if n % 10 == 0:
            await caught_up(informer, client, namespace, f"mark-{n}")
        name = rng.choice("abcdef")
        if name not in alive:
            await client.create(LEASES, a_lease(name, namespace), namespace)
            alive.add(name)
        elif rng.random() < 0.3:
            await client.delete(LEASES, name, namespace)
            alive.discard(name)
        else:
            holder = {"spec": {"holderIdentity": str(rng.random())}}
            await client.patch(LEASES, name, holder, namespace)
    faulty.enabled = False
    await caught_up(informer, client, namespace, "last")
    truth = (await client.list(LEASES, namespace)).items
    assert dict(informer.cache) == record.replayed == {lease.key: lease for lease in truth}
    assert len(faulty.injected_faults) > 3
    await informer.stop()
