"""Ports for programs that are told which port to listen on."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """Return a free port below those that the kernel gives to other sockets meanwhile."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
