"""A process whose files may not grow beyond a limit; the first failure removes the limit.

Run as ``python -m store.limited_writer DIRECTORY``; prints the name of each acknowledged object.
"""

import asyncio
import resource
import sys
from pathlib import Path

from holdfast.runtime import errors
from holdfast.runtime.clock import SystemClock
from holdfast.server.store import Store
from store.store_objects import build, key


class FastClock(SystemClock):
    """A clock that sleeps briefly, so that the test does not wait for the next trial commit."""

    async def sleep(self, seconds):
        await asyncio.sleep(0.01)


def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def write(store, name):
    await store.create(key(name), build(name, pad="x" * 20_000))
    print(name)


async def main():
    store = Store.open(Path(sys.argv[1]), FastClock())
    limit(600_000)
    number = 0
    try:
        while True:
            await write(store, f"p{number:03}")
            number += 1
    except errors.Unavailable as full:
        assert "cannot commit" in str(full), full
    assert store.revision == number == len(store.list("", "pods"))
    limit(resource.RLIM_INFINITY)
    while True:
        try:
            await write(store, "z-afterwards")
            break
        except errors.Unavailable:
            await asyncio.sleep(0.01)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
