"""An API server in a process of its own, to be killed: ``python lonely_server.py DIRECTORY``."""

import asyncio
import sys
from pathlib import Path

from server_fixture import start_server


async def main(directory):
    async with start_server(directory) as api:
        print(api.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
