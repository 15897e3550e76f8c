"""Check out folders of a revision into a temporary directory."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent


@contextmanager
def checkout(revision: str, *folders: str) -> Iterator[Path]:
    """Yield a directory with these folders of a revision; ``.`` is the working tree."""
    if revision == ".":
        yield ROOT
        return
    command = ["git", "-C", str(ROOT), "archive", revision, *folders]
    packed = io.BytesIO(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    with tempfile.TemporaryDirectory() as root, tarfile.open(fileobj=packed) as archive:
        archive.extractall(root, filter="data")
        yield Path(root)
