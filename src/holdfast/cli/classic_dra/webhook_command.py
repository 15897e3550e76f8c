"""``holdfast webhook``: run the admission webhook of classic claims."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from holdfast.cli import signals
from holdfast.processes import classic_webhook as webhook_process
from holdfast.processes.classic_webhook import WebhookProcess, WebhookSettings
from holdfast.runtime.clock import SystemClock


def run_webhook(
    host: str, port: int, directory: Path, scheduler_name: str, client_authority: Path | None
) -> None:
    """Run the webhook until a stop signal."""
    if client_authority is not None:
        client_authority = client_authority.expanduser().absolute()
    certificates = directory.expanduser().absolute()
    settings = WebhookSettings(host, port, certificates, scheduler_name, client_authority)
    signals.run(_run(settings))


def write_certificates(directory: Path, names: Sequence[str] | None) -> None:
    """Write a certificate, and print the part that the configuration of the webhook needs."""
    directory = directory.expanduser().absolute()
    hosts = list(names or (webhook_process.SERVICE,))
    webhook_process.make_certificates(directory, hosts, SystemClock().now())
    bundle = (directory / webhook_process.AUTHORITY).read_bytes()
    print(f"wrote tls.crt, tls.key and ca.crt for {', '.join(hosts)} into {directory}")
    print(f"caBundle: {b64encode(bundle).decode()}")


async def _run(settings: WebhookSettings) -> None:
    logging.getLogger(webhook_process.__name__).setLevel(logging.INFO)
    stop = signals.stop_event()
    process = WebhookProcess(settings, SystemClock())
    await process.start()
    print(f"answering reviews at {process.url}{webhook_process.PATH}", flush=True)
    await process.run(stop)
    print("stopped", flush=True)
