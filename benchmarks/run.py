"""Run every benchmark, one after the other, so that their figures stand side by side."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PARTS = ("decisions.py", "preemption.py", "server.py")


def main() -> int:
    wanted = sys.argv[1:] or PARTS
    for part in wanted:
        print(f"== {part}", flush=True)
        done = subprocess.run([sys.executable, str(HERE / part)], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
