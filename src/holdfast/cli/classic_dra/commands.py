"""The commands of classic DRA on real clusters; their implementation is imported on use."""
# ruff: noqa: PLC0415 - as in commands.py

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.usage import parse_port


def convert(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Manifests; -: standard input.")
    ],
    scheduler_name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="spec.schedulerName for pods with classic claims; default: as it is.",
        ),
    ] = "",
) -> None:
    """Convert manifests with classic claims (KEP-3063) to the form of a real cluster, as YAML.

    Claims of pods move to an annotation, classes and claims to the group dra.holdfast.dev. Pods of
    templates also need the webhook.
    """
    from holdfast.cli.classic_dra.convert_command import convert_files

    convert_files(files, scheduler_name)


def webhook(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT", parser=parse_port, help="Port to listen on; 0: any free port."
        ),
    ] = 9443,
    cert_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Directory with tls.crt and tls.key, as a Secret is mounted; they are read again "
            "when they change.",
        ),
    ] = Path("/etc/holdfast-webhook"),
    client_ca_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Answer only reviews of callers with a client certificate that one of these "
            "authorities has signed; default: of any caller.",
        ),
    ] = None,
    make_certificates: Annotated[
        bool,
        typer.Option(
            "--make-certificates",
            help="Write tls.crt, tls.key and ca.crt into the directory, and exit.",
        ),
    ] = False,
    dns_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --make-certificates: a name or address of the webhook; may be repeated; "
            "default: that of the Service in deploy/webhook.",
        ),
    ] = None,
    scheduler_name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="spec.schedulerName for pods with classic claims that set none; default: "
            "unchanged.",
        ),
    ] = "",
) -> None:
    """Run the admission webhook that lets kubelets prepare classic claims, until SIGTERM.

    It adds to each pod with the annotation dra.holdfast.dev/resource-claims the claims by which a
    kubelet calls the drivers. It reads and stores nothing, and needs no rights.
    """
    from holdfast.cli.classic_dra.webhook_command import run_webhook, write_certificates

    if make_certificates:
        write_certificates(cert_dir, dns_name)
    else:
        run_webhook(host, port, cert_dir, scheduler_name, client_ca_file)
