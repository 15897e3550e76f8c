"""An API server in a process to be killed: ``python -m apiserver.lonely_server DIRECTORY``."""

import asyncio
import sys
from pathlib import Path

from apiserver.server_fixture import start_server


async def main(directory):
    async with start_server(directory) as api:
        print(api.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
