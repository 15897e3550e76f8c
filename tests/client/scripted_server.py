"""A TCP server whose responses are written byte by byte, and a transport to it."""

import asyncio
from contextlib import asynccontextmanager

from holdfast.client.http import HttpTransport

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole(body, status=b"200 OK"):
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


@asynccontextmanager
async def server(answer, tls=None):
    """Serve TCP; ``answer(head, body, writer)`` writes the response, False closes."""

    async def serve(reader, writer):
        serving.append(asyncio.current_task())
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n")
                     if line.startswith(b"content-length:")), 0,
                )  # fmt: skip
                body = await reader.readexactly(length) if length else b""
                if await answer(head, body, writer) is False:
                    break
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            gone.set()
        finally:
            writer.close()

    gone, serving = asyncio.Event(), []
    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}", gone
    finally:
        listening.close()
        for task in serving:  # since Python 3.12 wait_closed() waits for connections too
            task.cancel()
        await listening.wait_closed()


@asynccontextmanager
async def transport_to(endpoint, **options):
    transport = HttpTransport(endpoint, **options)
    try:
        yield transport
    finally:
        await transport.close()


async def lines_of(transport, request):
    async with transport.stream(request) as stream:
        return [line async for line in stream]


def authority(directory, name):
    """Write a self-signed certificate for 127.0.0.1 and its key."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, hashes.SHA256())
    )
    path = directory / name
    path.with_suffix(".crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path
