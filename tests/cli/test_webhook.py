"""The webhook's server: reviews over TLS, pages, new certificates, an end without loss."""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager
from io import BytesIO

import aiohttp
import pytest

from holdfast.api.classic_names import POD_CLAIMS
from holdfast.cli.webhook_command import write_certificates
from holdfast.clock import SystemClock
from holdfast.errors import BadConfiguration, Refused
from holdfast.testing import VirtualClock
from holdfast.webhook_process import WebhookProcess, WebhookSettings

TEXT = json.dumps([{"name": "gpu", "claim": {"resourceClaimName": "mine"}}])
POD = {"metadata": {"annotations": {POD_CLAIMS: TEXT}}, "spec": {"containers": [{"name": "a"}]}}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "1", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": POD},
}


@asynccontextmanager
async def serving(directory, clock):
    process = WebhookProcess(WebhookSettings("127.0.0.1", 0, directory), clock)
    await process.start()
    stop = asyncio.Event()
    running = asyncio.create_task(process.run(stop))
    try:
        yield process
    finally:
        stop.set()
        await running


@asynccontextmanager
async def session_of(directory):
    trusted = ssl.create_default_context(cafile=directory / "ca.crt")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as session:
        yield session


async def test_reviews_pages_and_new_certificates(tmp_path, capsys):
    write_certificates(tmp_path, ["127.0.0.1"])
    assert "caBundle: " in capsys.readouterr().out
    assert (tmp_path / "tls.key").stat().st_mode & 0o777 == 0o600
    clock = VirtualClock()
    async with serving(tmp_path, clock) as process:
        async with session_of(tmp_path) as session:
            async with session.post(f"{process.url}/pods", json=REVIEW) as answer:
                response = (await answer.json())["response"]
                assert (answer.status, response["allowed"]) == (200, True)
                assert response["patchType"] == "JSONPatch"
            async with session.post(f"{process.url}/pods", data=b"{}") as answer:
                assert answer.status == 400
            async with session.post(
                f"{process.url}/pods", data=BytesIO(b" " * 9_000_000)
            ) as answer:
                assert answer.status == 413
            async with session.get(f"{process.url}/readyz?verbose") as answer:
                assert "[+]shutdown ok" in await answer.text()
            async with session.get(f"{process.url}/metrics") as answer:
                text = await answer.text()
                assert 'holdfast_webhook_reviews_total{result="patched"} 1.0' in text
                assert 'holdfast_webhook_reviews_total{result="malformed"} 1.0' in text
        # A certificate that does not fit its key is not used; a new pair is.
        certificate = (tmp_path / "tls.crt").read_bytes()
        key = (tmp_path / "tls.key").read_bytes()
        write_certificates(tmp_path, ["127.0.0.1"])
        (tmp_path / "tls.crt").write_bytes(certificate)
        await clock.advance(10)
        (tmp_path / "tls.key").write_bytes(key)
        write_certificates(tmp_path, ["127.0.0.1"])
        await clock.advance(10)
        url = f"{process.url}/healthz"
        async with session_of(tmp_path) as session, session.get(url) as answer:
            assert await answer.text() == "ok"


async def test_a_port_or_certificate_that_cannot_be_used_is_an_error(tmp_path):
    with pytest.raises(BadConfiguration, match="--make-certificates"):
        WebhookProcess(WebhookSettings("127.0.0.1", 0, tmp_path), SystemClock())
    write_certificates(tmp_path, None)
    async with serving(tmp_path, SystemClock()) as process:
        port = int(process.url.rpartition(":")[2])
        other = WebhookProcess(WebhookSettings("127.0.0.1", port, tmp_path), SystemClock())
        with pytest.raises(Refused, match="--port"):
            await other.start()
