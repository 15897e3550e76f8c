"""An API server in its own process: ``python -m apiserver.server_subprocess DIRECTORY``."""

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from apiserver.server_fixture import start_server


@asynccontextmanager
async def server_process(directory):
    """Run the process until the block ends; yield it and its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "apiserver.server_subprocess", str(directory),
        cwd=Path(__file__).parents[1], stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def main(directory):
    async with start_server(directory) as api:
        print(api.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
