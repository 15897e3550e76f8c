"""Run the probes and hooks of a container: commands, HTTP requests, connections."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass

from holdfast.node.agent.node_pod import HttpAction, LifecycleHandler, NodeContainer
from holdfast.node.agent.runtime import ExecProcess, NotRunning, RunningContainer
from holdfast.runtime.clock import Clock

OUTPUT_BYTES = 10 * 1024
"""The bytes of a probe's output that are kept for its event."""


@dataclass(frozen=True, slots=True)
class ActionTarget:
    """The container on which probes and hooks act."""

    container: NodeContainer
    running: RunningContainer
    address: str
    clock: Clock


async def run_action(action: LifecycleHandler, target: ActionTarget, timeout: float) -> str:
    """Run a probe or hook; return "" if it succeeds, else why not."""
    container, running, address = target.container, target.running, target.address
    try:
        async with asyncio.timeout(timeout):
            if action.exec is not None:
                return await _run_command(action.exec.command, running)
            if action.http_get is not None:
                return await _get(action.http_get, container, address)
            if action.tcp_socket is not None:
                host = action.tcp_socket.host or address
                await _connect(host, _port(action.tcp_socket.port, container))
                return ""
    except TimeoutError:
        return f"timed out after {timeout:g} s"
    except (OSError, NotRunning, ValueError) as failure:
        return str(failure)
    if action.sleep is not None:
        await target.clock.sleep(min(action.sleep.seconds, timeout))
        return ""
    return "probes of this kind are not supported (gRPC): use exec, httpGet or tcpSocket"


async def _run_command(command: tuple[str, ...], running: RunningContainer) -> str:
    process = await running.exec(command)
    try:
        output, errors = await asyncio.gather(_read(process, 1), _read(process, 2))
        code = await process.wait()
    finally:
        process.kill()
    if code == 0:
        return ""
    return (output + errors).decode(errors="replace").strip() or f"exit code {code}"


async def _read(process: ExecProcess, stream: int) -> bytes:
    kept = b""
    while data := await process.read(stream):
        kept = (kept + data)[:OUTPUT_BYTES]
    return kept


async def _get(action: HttpAction, container: NodeContainer, address: str) -> str:
    """Send a GET request; any answer from 200 to 399 is a success."""
    host, port = action.host or address, _port(action.port, container)
    context = None
    if action.scheme == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/1.36", "Accept": "*/*"}
        headers |= {h.name: h.value for h in action.http_headers} | {"Connection": "close"}
        lines = [f"GET {action.path or '/'} HTTP/1.1"] + [f"{k}: {v}" for k, v in headers.items()]
        if any("\n" in line or "\r" in line for line in lines):
            raise ValueError("the request of the probe has a line break")
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await writer.drain()
        answer = (await reader.readline()).decode("latin-1").split(None, 2)
    finally:
        writer.close()
        with suppress(OSError, ssl.SSLError):
            await writer.wait_closed()
    if len(answer) < 2 or not answer[1].isdigit():
        return f"{host}:{port} did not answer with HTTP"
    status = int(answer[1])
    return "" if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"


async def _connect(host: str, port: int) -> None:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def _port(port: int | str, container: NodeContainer) -> int:
    """Return the number of a port that may be given by its name; raise ValueError."""
    if isinstance(port, int):
        return port
    for known in container.ports:
        if known.name == port:
            return known.container_port
    if port.isdigit():
        return int(port)
    raise ValueError(f"container {container.name} has no port with the name {port!r}")
