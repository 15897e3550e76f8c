"""Generate the modules of ``src/holdfast/node/kubelet_api`` from its ``.proto`` files.

Each ``NAME.proto`` gives ``NAME_pb2.py`` and ``NAME_pb2_grpc.py`` with their types in ``.pyi``
files. This program writes the types of the stubs: the generator of grpcio-tools makes none.

Run it after changing a ``.proto`` file or raising grpcio-tools::

    .venv/bin/python tools/generate_kubelet_api.py            # write the modules
    .venv/bin/python tools/generate_kubelet_api.py --check    # exit 1 when one is not up to date

and commit the changes. Generated code needs at least the versions of grpcio and protobuf that
generated it; pyproject.toml requires them too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet, ServiceDescriptorProto
from grpc_tools import protoc

SOURCE = Path(__file__).resolve().parent.parent / "src"
PACKAGE = Path("holdfast") / "node" / "kubelet_api"


def main() -> int:
    """Write the modules, or compare them with what would be written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 on a difference"
    )
    check = parser.parse_args().check
    stale = []
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        for made in sorted((Path(scratch) / PACKAGE).glob("*.py*")):
            target = SOURCE / PACKAGE / made.name
            if check and (not target.exists() or target.read_text() != made.read_text()):
                stale.append(target.name)
            elif not check:
                target.write_text(made.read_text())
    if stale:
        print("not up to date, run tools/generate_kubelet_api.py:", ", ".join(stale))
    return 1 if stale else 0


def generate(directory: Path) -> None:
    """Write all modules below a directory."""
    protos = [str(path.relative_to(SOURCE)) for path in sorted((SOURCE / PACKAGE).glob("*.proto"))]
    descriptors = directory / "descriptors"
    outputs = [f"--{kind}_out={directory}" for kind in ("python", "pyi", "grpc_python")]
    arguments = ["protoc", f"-I{SOURCE}", f"--descriptor_set_out={descriptors}", *outputs, *protos]
    if protoc.main(arguments):
        raise SystemExit("protoc failed")
    for file in FileDescriptorSet.FromString(descriptors.read_bytes()).file:
        stem = Path(file.name).stem
        path = directory / PACKAGE / f"{stem}_pb2_grpc.pyi"
        path.write_text(stub_types(f"{stem}_pb2", list(file.service)))
        messages = directory / PACKAGE / f"{stem}_pb2.pyi"
        messages.write_text("# mypy: ignore-errors\n" + messages.read_text())


def stub_types(module: str, services: list[ServiceDescriptorProto]) -> str:
    """Return the types of a module of stubs, for grpc.aio."""
    lines = [
        '"""Types of the stubs and servicers, for grpc.aio."""',
        "from typing import Any",
        "from collections.abc import AsyncIterator",
        f"from holdfast.node.kubelet_api import {module} as _messages",
        "from holdfast.node.kubelet_api.calls import StreamCall, UnaryCall",
    ]
    for service in services:
        stub, servicer = [f"class {service.name}Stub:"], [f"class {service.name}Servicer:"]
        stub.append("    def __init__(self, channel: Any) -> None: ...")
        for method in service.method:
            request, response = (
                f"_messages.{name.rpartition('.')[2]}"
                for name in (method.input_type, method.output_type)
            )
            streams = method.server_streaming
            kind = "StreamCall" if streams else "UnaryCall"
            stub.append(f"    {method.name}: {kind}[{request}, {response}]")
            answer = f"AsyncIterator[{response}]" if streams else response
            servicer.append(
                f"    {'' if streams else 'async '}def {method.name}"
                f"(self, request: {request}, context: Any) -> {answer}: ..."
            )
        add = f"def add_{service.name}Servicer_to_server"
        lines += ["", *stub, "", *servicer, ""]
        lines.append(f"{add}(servicer: {service.name}Servicer, server: Any) -> None: ...")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
