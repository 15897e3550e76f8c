"""Whom an extender's client believes, and how it shows who it is itself."""

import ssl

import pytest

from holdfast.apiserver.access.certificates import (
    make_authority,
    make_client_certificate,
    make_server_certificate,
)
from holdfast.clock import SystemClock
from holdfast.errors import BadConfiguration
from holdfast.framework.extender import ExtenderConfig, ExtenderFailed, ExtenderTLS
from holdfast.scheduler.extenders import HttpExtender
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


async def ask(extender, **fields):
    extender.answers["filter"] = lambda _body: {"fine": True}
    client = HttpExtender(extender.config(filter_verb="filter", **fields), VirtualClock())
    try:
        return await client.ask("filter", {}, dict)
    finally:
        await client.close()


async def test_an_authority_given_as_data_is_believed(server_tls, authority):
    async with FakeExtender(server_tls) as extender:
        tls = ExtenderTLS(ca_data=authority.certificate)
        assert await ask(extender, tls_config=tls, enable_https=True) == {"fine": True}


async def test_an_authority_given_as_a_file_is_believed(server_tls, authority, tmp_path):
    file = tmp_path / "ca.pem"
    file.write_bytes(authority.certificate)
    async with FakeExtender(server_tls) as extender:
        tls = ExtenderTLS(ca_file=str(file), server_name="extender.example")
        assert await ask(extender, tls_config=tls) == {"fine": True}


async def test_somebody_else_is_not(server_tls):
    stranger = make_authority("stranger", now())
    async with FakeExtender(server_tls) as extender:
        with pytest.raises(ExtenderFailed, match="certificate verify failed"):
            await ask(extender, tls_config=ExtenderTLS(ca_data=stranger.certificate))
        with pytest.raises(ExtenderFailed, match="certificate verify failed"):
            await ask(extender)


async def test_without_an_authority_anybody_is_if_only_https_is_asked_for(server_tls):
    async with FakeExtender(server_tls) as extender:
        assert await ask(extender, enable_https=True) == {"fine": True}
        assert await ask(extender, tls_config=ExtenderTLS(insecure=True)) == {"fine": True}


async def test_we_show_who_we_are(authority, tmp_path):
    server = context(make_server_certificate(authority, ("127.0.0.1",), now()), tmp_path)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(cadata=authority.certificate.decode())
    me = make_client_certificate(authority, "scheduler", (), now())
    async with FakeExtender(server) as extender:
        tls = ExtenderTLS(ca_data=authority.certificate, cert_data=me.certificate, key_data=me.key)
        assert await ask(extender, tls_config=tls) == {"fine": True}


def test_believing_and_not_caring_at_once_is_refused():
    tls = ExtenderTLS(insecure=True, ca_data=b"anything")
    config = ExtenderConfig(url_prefix="https://x", tls_config=tls)
    with pytest.raises(BadConfiguration, match="insecure flag is not allowed"):
        HttpExtender(config, VirtualClock())


def test_certificates_that_cannot_be_read_are_named():
    config = ExtenderConfig(url_prefix="https://x", tls_config=ExtenderTLS(ca_file="/nowhere"))
    with pytest.raises(BadConfiguration, match="https://x: tlsConfig"):
        HttpExtender(config, VirtualClock())
