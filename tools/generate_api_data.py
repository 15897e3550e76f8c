"""Generate the API data that ships in the wheel (``src/holdfast/server/data/*.json.gz``).

Users need neither Go nor the 22 MB schema package: the parts that Holdfast reads are generated once
and committed.

``protobuf.json.gz``
    Message, field number, JSON name, type and whether JSON omits the field, for every kind that Go
    clients send as protobuf. From the ``generated.proto`` files (numbers, types) and the Go
    structs (JSON names, pointers, ``omitempty``, inlining) of the modules
    ``k8s.io/api``, ``k8s.io/apimachinery``, ``k8s.io/apiextensions-apiserver`` and
    ``k8s.io/kube-aggregator``.
``fields.json.gz``
    Field names, merge keys and list types of every built-in kind, for strict field checking,
    strategic merge and server-side apply. From the development dependency
    ``kubernetes-validate``.
``openapi.json.gz``
    The same schemas with their descriptions, for ``/openapi/v3``. Same source.

Run it after raising the Kubernetes version::

    .venv/bin/python tools/generate_api_data.py            # Go modules from tests/real/go
    .venv/bin/python tools/generate_api_data.py --modules ~/go/pkg/mod/k8s.io

and commit the changes. The output is reproducible: equal sources give equal bytes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from pathlib import Path

from api_data import protos, schemas

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "src" / "holdfast" / "server" / "data"
MODULES = ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator")


def main() -> int:
    """Write the three files and print their sizes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kubernetes", default="1.36", help="minor version of the schemas")
    parser.add_argument("--modules", type=Path, help="directory holding api@v0.36.x and others")
    arguments = parser.parse_args()
    definitions = schemas.definitions(arguments.kubernetes)
    directories = [module_directory(name, arguments) for name in MODULES]
    write("protobuf", protos.table(directories, schemas.served_packages(definitions)))
    write("fields", schemas.fields(definitions))
    write("openapi", schemas.openapi(definitions))
    return 0


def module_directory(name: str, arguments: argparse.Namespace) -> Path:
    """Return the source directory of a Go module: from ``--modules``, or from ``go list``."""
    if arguments.modules:
        found = sorted(arguments.modules.glob(f"{name}@v0.{arguments.kubernetes[2:]}.*"))
        if found:
            return found[-1]
        raise SystemExit(f"no {name}@v0.{arguments.kubernetes[2:]}.* in {arguments.modules}")
    asked = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", f"k8s.io/{name}"],
        cwd=ROOT / "tests" / "real" / "go",
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode or not asked.stdout.strip():
        raise SystemExit(f"go list k8s.io/{name} failed: {asked.stderr}\nGive --modules instead.")
    return Path(asked.stdout.strip())


def write(name: str, content: object) -> None:
    """Write one file reproducibly."""
    raw = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    packed = gzip.compress(raw, 9, mtime=0)
    (OUT / f"{name}.json.gz").write_bytes(packed)
    print(f"{name}.json.gz: {len(packed):,} bytes ({len(raw):,} unpacked)", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
