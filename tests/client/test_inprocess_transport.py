import pytest

from client.transport_suite import TransportSuite
from holdfast.server.inprocess import InProcessTransport


class TestInProcess(TransportSuite):
    @pytest.fixture
    def transport(self, embedded):
        return InProcessTransport(embedded.server)
