"""A process that writes in parallel and reports each acknowledged write, until it is killed.

Run as ``python -m store.parallel_writer DIRECTORY [PREFIX]``; prints ``name revision`` lines.
"""

import asyncio
import os
import sys
from pathlib import Path

from holdfast.runtime.clock import SystemClock
from holdfast.server.store import Store
from store.store_objects import build, key

PARALLEL = 32
PREFIX = sys.argv[2] if len(sys.argv) > 2 else ""


async def write_for_ever(store, writer):
    number = 0
    while True:
        name = f"{PREFIX}w{writer}-{number}"
        stored = await store.create(key(name), build(name))
        os.write(1, f"{name} {stored.revision}\n".encode())
        stored = await store.update(stored, build(name, labels={"again": "yes"}))
        os.write(1, f"{name} {stored.revision}\n".encode())
        number += 1


async def main():
    store = Store.open(Path(sys.argv[1]), SystemClock())
    await asyncio.gather(*(write_for_ever(store, writer) for writer in range(PARALLEL)))


if __name__ == "__main__":
    asyncio.run(main())
