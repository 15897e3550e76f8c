"""The webhook's server: reviews over TLS, pages, new certificates, an end without loss."""

import asyncio
import json
import random
import ssl
from contextlib import asynccontextmanager
from io import BytesIO

import aiohttp
import pytest

from cli.conftest import read_until
from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.cli.classic_dra.webhook_command import write_certificates
from holdfast.processes import classic_webhook as webhook_process
from holdfast.processes.classic_webhook import WebhookProcess, WebhookSettings
from holdfast.runtime.certificates import make_authority, make_client_certificate
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import BadConfiguration, Refused
from holdfast.runtime.settings import ServerLimits
from holdfast.testing import VirtualClock

TEXT = json.dumps([{"name": "gpu", "claim": {"resourceClaimName": "mine"}}])
POD = {"metadata": {"annotations": {POD_CLAIMS: TEXT}}, "spec": {"containers": [{"name": "a"}]}}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "1", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": POD},
}


@asynccontextmanager
async def serving(directory, clock, **more):
    process = WebhookProcess(WebhookSettings("127.0.0.1", 0, directory, **more), clock)
    await process.start()
    stop = asyncio.Event()
    running = asyncio.create_task(process.run(stop))
    try:
        yield process
    finally:
        stop.set()
        await running


@asynccontextmanager
async def session_of(directory, client=None):
    trusted = ssl.create_default_context(cafile=directory / "ca.crt")
    if client is not None:
        trusted.load_cert_chain(client / "tls.crt", client / "tls.key")
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


def mutants(body, count, seed=0):
    """Yield a review with bytes that are changed, added, removed, repeated or cut off."""
    rng = random.Random(seed)
    odd = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b'"\xfe"', b"\n\x1b[2J"]
    odd += [b"null", b"true", b"{}", b"[]", b'""', b"1e999", b"-1", b"[" * 3000, b"9" * 400]
    for _ in range(count):
        found = bytearray(body)
        for _ in range(rng.randint(1, 2)):
            at, way = rng.randrange(len(found) + 1), rng.randrange(6)
            if way == 0:
                found[at : at + 1] = bytes([rng.randrange(256)])
            elif way == 1:
                del found[at : at + rng.randint(1, 12)]
            elif way == 2:
                found[at:at] = rng.choice(odd)
            elif way == 3:
                found[at : at + rng.randint(1, 30)] = rng.choice(odd)
            elif way == 4:
                found[at:at] = found[at : at + rng.randint(1, 40)]
            else:
                del found[at:]
        yield bytes(found)


async def test_mutants_of_reviews_are_answered_and_logged_once_a_minute(tmp_path, caplog):
    write_certificates(tmp_path, ["127.0.0.1"])
    clock = VirtualClock()
    counts = {200: 0, 400: 0}
    async with serving(tmp_path, clock) as process, session_of(tmp_path) as session:
        caplog.clear()
        for body in mutants(json.dumps(REVIEW).encode(), 3000):
            async with session.post(f"{process.url}/pods", data=body) as answer:
                counts[answer.status] += 1
                text = await answer.text()
            assert answer.status == 400 or "response" in text
        async with session.post(f"{process.url}/pods", data=b'{"apiVersion": "\xff"}') as answer:
            assert answer.status == 400
        [line] = [one for one in caplog.records if one.levelname != "INFO"]
        assert "a review cannot be read" in line.getMessage()
        assert (line.exc_info, "\n" in line.getMessage()) == (None, False)
        await clock.advance(60)
        async with session.post(f"{process.url}/pods", data=b"\xff") as answer:
            assert answer.status == 400
        assert "meanwhile" in caplog.records[-1].getMessage()
    assert min(counts.values()) > 200, counts


def test_it_listens_on_loopback_unless_told_otherwise(tmp_path, start):
    write_certificates(tmp_path, ["127.0.0.1"])
    process = start("webhook", "--cert-dir", tmp_path, "--port", "0")
    assert "https://127.0.0.1:" in read_until(process, "answering reviews at")


async def test_only_callers_with_a_certificate_are_answered_if_an_authority_is_given(tmp_path):
    write_certificates(tmp_path, ["127.0.0.1"])
    now = SystemClock().now()
    authorities = {name: make_authority(name, now) for name in ("known", "other")}
    for name, authority in authorities.items():
        (tmp_path / name).mkdir()
        pair = make_client_certificate(authority, "kube-apiserver", (), now)
        (tmp_path / name / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / name / "tls.key").write_bytes(pair.key)
    file = tmp_path / "clients.crt"
    file.write_bytes(authorities["known"].certificate)
    async with serving(tmp_path, SystemClock(), client_authority=file) as process:
        async with (
            session_of(tmp_path, tmp_path / "known") as session,
            session.post(f"{process.url}/pods", json=REVIEW) as answer,
        ):
            assert (await answer.json())["response"]["allowed"] is True
        async with session_of(tmp_path) as session:
            async with session.post(f"{process.url}/pods", json=REVIEW) as answer:
                assert answer.status == 401
                assert "--client-ca-file" in await answer.text()
            async with session.get(f"{process.url}/readyz") as answer:
                assert answer.status == 200  # kubelets have no certificate for it
        async with session_of(tmp_path, tmp_path / "other") as session:
            with pytest.raises(aiohttp.ClientError):
                await session.post(f"{process.url}/pods", json=REVIEW)
    file.write_text("no certificate")
    with pytest.raises(BadConfiguration, match="--client-ca-file"):
        WebhookProcess(
            WebhookSettings("127.0.0.1", 0, tmp_path, client_authority=file), SystemClock()
        )


async def test_slow_and_many_requests_of_one_caller_are_refused(tmp_path, monkeypatch):
    limits = ServerLimits(body_seconds=0.3, header_seconds=0.3, user_requests=3, other_requests=6)
    monkeypatch.setattr(webhook_process, "LIMITS", limits)
    write_certificates(tmp_path, ["127.0.0.1"])
    head = b"POST /pods HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
    trusted = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    async with serving(tmp_path, SystemClock()) as process:
        port = int(process.url.rpartition(":")[2])

        async def connect(sent):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
            writer.write(sent)
            await writer.drain()
            return reader, writer

        slow = [await connect(head) for _ in range(5)]
        answers = await asyncio.gather(*(reader.read(20) for reader, _ in slow))
        found = sorted(answer.split()[1] for answer in answers)
        assert found == [b"429", b"429", b"504", b"504", b"504"]
        unfinished = await connect(head[:20])
        assert await unfinished[0].read() == b""
        async with session_of(tmp_path) as session:
            async with session.post(f"{process.url}/pods", json=REVIEW) as answer:
                assert answer.status == 200
            async with session.get(f"{process.url}/nothing") as answer:
                assert answer.status == 404
        for _, writer in [*slow, unfinished]:
            writer.close()
