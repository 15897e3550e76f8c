"""The limits and tests in docs/security.md exist."""

import re
from pathlib import Path

import pytest

from holdfast.runtime.settings import ServerLimits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_every_test_on_the_page_exists(file, test):
    where = ROOT if file.startswith("tests/") else ROOT / "tests"
    path = where / file if "/" in file else Path(__file__).with_name(file)
    assert f"def {test}(" in path.read_text()


def test_the_page_states_the_default_limits():
    limits = ServerLimits()
    row = next(line for line in PAGE.splitlines() if line.startswith("| requests in flight"))
    numbers = (limits.system_requests, limits.other_requests, limits.user_requests,
               limits.anonymous_requests)  # fmt: skip
    assert re.findall(r"\d+", row)[:4] == [str(n) for n in numbers]
    assert f"| {limits.handshake_seconds:.0f} s |" in PAGE
    assert f"| {limits.body_seconds:.0f} s |" in PAGE
    assert f"| {limits.header_bytes // 1024} KiB, {limits.headers} fields |" in PAGE
    assert f"| {limits.connections:,}," in PAGE
    assert f"| {limits.unauthenticated_connections:,} or half" in PAGE
