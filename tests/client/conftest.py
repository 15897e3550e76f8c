import pytest

from client.embedded_server import Embedded, Wire
from holdfast.testing import VirtualClock


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def embedded(tmp_path, clock):
    server = Embedded(tmp_path, clock)
    clock.busy.append(lambda: server.busy)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def wire(embedded):
    return Wire(embedded)


@pytest.fixture
def let_pass(clock):
    return clock.advance


@pytest.fixture
def compact(embedded):
    return embedded.compact
