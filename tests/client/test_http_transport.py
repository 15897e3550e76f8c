import pytest

from client.transport_suite import TransportSuite


class TestHttps(TransportSuite):
    @pytest.fixture
    async def transport(self, embedded):
        async with embedded.https() as transport:
            yield transport
