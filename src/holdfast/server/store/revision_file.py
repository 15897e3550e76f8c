"""The high-water mark of revisions, stored in a file next to the database.

If the end of the database is lost (the write-ahead log was truncated, a file was replaced by an
older copy), its last revision is lower than before, and revisions that clients have seen would be
assigned again with other content. So a small file next to it stores two numbers:

``reserved``   every committed revision is below it. Revisions are reserved in blocks, with an
               fsync before the commit that needs them; exact after a clean stop.
``committed``  the revision of the last commit. Written after each commit without an fsync, so
               after a power failure it may be too low; it is never too high.

Nothing inside the database can tell that its end is missing, so the numbers are in another file. An
fsync of this file with each commit would cost as much as the commit, so one commit in 10,000 pays
for a block. Revisions derived from the clock would break when the clock is set back (decision
0010).
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

from holdfast.runtime import errors
from holdfast.runtime.private_files import open_private, sync_directory

log = logging.getLogger(__name__)
BLOCK = 10_000
"""Revisions reserved with one fsync; at most this many are skipped after a crash."""
_SIZE = 42
_MAX_REVISION = 2**62
"""The largest plausible revision; integers of SQLite and of clients have 64 bits.

Before this check, a file with a number of 20 nines was accepted, and then every write failed in
SQLite.
"""


class RevisionFile:
    """The revision file of one data directory; both numbers are 0 while it is empty."""

    def __init__(self, path: Path) -> None:
        self._descriptor = open_private(path, os.O_RDWR)
        try:
            self.reserved, self.committed = self._read(path)
            self._reserved_at_open = self.reserved
        except BaseException:
            self.close()
            raise

    def _read(self, path: Path) -> tuple[int, int]:
        text = os.pread(self._descriptor, _SIZE, 0)
        numbers = text.split()
        if len(numbers) == 2 and all(n.isdigit() and int(n) <= _MAX_REVISION for n in numbers):
            return int(numbers[0]), int(numbers[1])
        if text:
            log.warning("%s cannot be read: it is not known whether revisions were lost", path)
        sync_directory(path.parent)
        return 0, 0

    def reserve(self, revision: int) -> None:
        """Reserve a block of revisions if a revision to be committed is not reserved yet."""
        if revision >= self.reserved:
            self._write(revision + BLOCK, self.committed, sync=True)

    def record_commit(self, revision: int) -> None:
        """Write the revision of a commit; an error is ignored because the commit is durable."""
        with suppress(OSError):
            self._write(self.reserved, revision, sync=False)

    def release_unused(self, revision: int) -> None:
        """Release, at a clean stop, the reserved revisions after the last revision of the store.

        Those that were reserved when the store was opened stay reserved: a client may know them.
        """
        self._write(max(revision + 1, self._reserved_at_open), self.committed, sync=True)

    def close(self) -> None:
        """Close the file; calling it again does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, reserved: int, committed: int, *, sync: bool) -> None:
        os.pwrite(self._descriptor, f"{reserved:020d} {committed:020d}\n".encode(), 0)
        if sync:
            os.fsync(self._descriptor)
        self.reserved, self.committed = reserved, committed


class RevisionGaps:
    """Ranges of revisions that may have been assigned but are not in the store.

    A watch cannot start in one. Each gap is (last revision before it, first revision after it).
    """

    MAX_GAPS = 64
    """With more gaps than this, the two oldest are merged."""

    def __init__(self, gaps: list[tuple[int, int]]) -> None:
        self._gaps = gaps

    def add(self, before: int, after: int) -> None:
        """Add the newest gap."""
        self._gaps.append((before, after))
        if len(self._gaps) > self.MAX_GAPS:
            first, second, *rest = self._gaps
            self._gaps[:] = [(first[0], second[1]), *rest]

    def check(self, revision: int) -> None:
        """Raise Expired for a revision inside a gap."""
        for before, after in self._gaps:
            if before < revision < after:
                raise errors.Expired(f"too old resource version: {revision} ({after})")

    def as_list(self) -> list[tuple[int, int]]:
        """Return all gaps, oldest first."""
        return list(self._gaps)
