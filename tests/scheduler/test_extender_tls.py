"""TLS to extenders: which server certificates are accepted, and the client certificate."""

import ssl

import pytest

from holdfast.runtime.certificates import (
    make_authority,
    make_client_certificate,
    make_server_certificate,
)
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import BadConfiguration
from holdfast.scheduling.framework.extender import ExtenderConfig, ExtenderFailed, ExtenderTLS
from holdfast.scheduling.scheduler.extenders import HttpExtender
from holdfast.testing import VirtualClock
from holdfast.testing.fake_extender import FakeExtender

now = SystemClock().now


@pytest.fixture(scope="module")
def authority():
    return make_authority("test", now())


@pytest.fixture
def server_tls(authority, tmp_path):
    pair = make_server_certificate(authority, ("127.0.0.1", "extender.example"), now())
    return context(pair, tmp_path)


def context(pair, tmp_path):
    file = tmp_path / "server.pem"
    file.write_bytes(pair.certificate + pair.key)
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(file)
    return made


async def send(extender, **fields):
    extender.answers["filter"] = lambda _body: {"fine": True}
    client = HttpExtender(extender.config(filter_verb="filter", **fields), VirtualClock())
    try:
        return await client.send("filter", {}, dict)
    finally:
        await client.close()


async def test_a_ca_given_as_data_is_trusted(server_tls, authority):
    async with FakeExtender(server_tls) as extender:
        tls = ExtenderTLS(ca_data=authority.certificate)
        assert await send(extender, tls_config=tls, enable_https=True) == {"fine": True}


async def test_a_ca_given_as_a_file_is_trusted(server_tls, authority, tmp_path):
    file = tmp_path / "ca.pem"
    file.write_bytes(authority.certificate)
    async with FakeExtender(server_tls) as extender:
        tls = ExtenderTLS(ca_file=str(file), server_name="extender.example")
        assert await send(extender, tls_config=tls) == {"fine": True}


async def test_a_server_certificate_of_another_ca_is_rejected(server_tls):
    stranger = make_authority("stranger", now())
    async with FakeExtender(server_tls) as extender:
        with pytest.raises(ExtenderFailed, match="certificate verify failed"):
            await send(extender, tls_config=ExtenderTLS(ca_data=stranger.certificate))
        with pytest.raises(ExtenderFailed, match="certificate verify failed"):
            await send(extender)


async def test_enable_https_without_a_ca_accepts_any_certificate(server_tls):
    async with FakeExtender(server_tls) as extender:
        assert await send(extender, enable_https=True) == {"fine": True}
        assert await send(extender, tls_config=ExtenderTLS(insecure=True)) == {"fine": True}


async def test_the_client_certificate_is_sent(authority, tmp_path):
    server = context(make_server_certificate(authority, ("127.0.0.1",), now()), tmp_path)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(cadata=authority.certificate.decode())
    me = make_client_certificate(authority, "scheduler", (), now())
    async with FakeExtender(server) as extender:
        tls = ExtenderTLS(ca_data=authority.certificate, cert_data=me.certificate, key_data=me.key)
        assert await send(extender, tls_config=tls) == {"fine": True}


def test_a_ca_together_with_insecure_is_rejected():
    tls = ExtenderTLS(insecure=True, ca_data=b"anything")
    config = ExtenderConfig(url_prefix="https://x", tls_config=tls)
    with pytest.raises(BadConfiguration, match="insecure flag is not allowed"):
        HttpExtender(config, VirtualClock())


def test_unreadable_certificates_are_reported():
    config = ExtenderConfig(url_prefix="https://x", tls_config=ExtenderTLS(ca_file="/nowhere"))
    with pytest.raises(BadConfiguration, match="https://x: tlsConfig"):
        HttpExtender(config, VirtualClock())
