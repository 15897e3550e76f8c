"""The release of Kubernetes that an API server has, from ``/version``."""

from __future__ import annotations

import re

import msgspec

from holdfast.client.client import Client
from holdfast.errors import Forbidden, NotFound
from holdfast.feature_gates import NEWEST, Release

_NUMBER = re.compile(r"\d+")


class _Version(msgspec.Struct, rename="camel"):
    major: str = ""
    minor: str = ""
    emulation_major: str = ""
    emulation_minor: str = ""


async def read_server_release(client: Client) -> Release:
    """Return the release that a server has or emulates; the newest known one if it does not say."""
    try:
        return release_in(await client.raw("/version"))
    except (Forbidden, NotFound):
        return NEWEST


def release_in(document: bytes) -> Release:
    """Return the release in a response to ``/version``; the newest known one if there is none.

    >>> release_in(b'{"major": "1", "minor": "36+"}')
    (1, 36)
    """
    try:
        said = msgspec.json.decode(document, type=_Version)
    except msgspec.MsgspecError:
        return NEWEST
    major = _NUMBER.match(said.emulation_major or said.major)
    minor = _NUMBER.match(said.emulation_minor or said.minor)
    return (int(major[0]), int(minor[0])) if major and minor else NEWEST
