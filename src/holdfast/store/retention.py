"""How much history is kept, so that watches resume and lists page without starting over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """Say how much history each resource keeps."""

    seconds: float = 300.0
    """Events younger than this are kept; also how often compaction runs. As etcd in Kubernetes."""
    least: int = 1_000
    """The newest so many are kept whatever their age, so quiet resources need no relist."""
    most: int = 20_000
    """Never more than so many, whatever their age: history lives in memory."""
    lag: int = 10_000
    """A subscriber further behind than this is ended; half of ``most``, so it can resume."""
    most_bytes: int = 256 * 1024 * 1024
    """Never more than so many bytes of objects either: a thousand large ones are a gigabyte."""
