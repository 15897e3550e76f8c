"""``holdfast explain``: the deciding code run on a file of API objects, no cluster needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from holdfast.cli.objects import build_world, flatten, parse_documents, read_object
from holdfast.cli.verdict import as_text
from holdfast.clock import SystemClock, parse_rfc3339
from holdfast.errors import BadRequest, HoldfastError, NotBuilt
from holdfast.framework.explanation import explain as decide
from holdfast.plugins import default_profiles


def explain(
    snapshot: Annotated[
        Path | None, typer.Option(help="A v1 List, or YAML/JSON documents.")
    ] = None,
    pod: Annotated[str, typer.Option(help="NAMESPACE/NAME.")] = "",
    config: Annotated[Path | None, typer.Option(help="A KubeSchedulerConfiguration.")] = None,
    preempt: Annotated[bool, typer.Option("--preempt", help="Try preemption too.")] = False,
    output: Annotated[str, typer.Option("-o", "--output", help="json or text.")] = "text",
    batch: Annotated[bool, typer.Option("--batch", help="JSON lines on standard input.")] = False,
) -> None:
    """Explain a decision over a snapshot."""
    if batch:
        _batch()
        return
    if snapshot is None or not pod:
        raise BadRequest("give --snapshot FILE and --pod NAMESPACE/NAME, or --batch")
    try:
        text = snapshot.read_text() if str(snapshot) != "-" else sys.stdin.read()
        objects = parse_documents(text)
        settings = _read_config(config)
        answer = explain_objects(objects, pod, settings, preempt)
    except (HoldfastError, OSError) as wrong:
        print(f"holdfast: {wrong}", file=sys.stderr)
        raise typer.Exit(2) from wrong
    if output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n")
    else:
        sys.stdout.write(as_text(answer))


def explain_objects(
    raw: list[dict[str, Any]],
    pod: str,
    config: dict[str, Any] | None = None,
    preempt: bool = False,
    now: float | None = None,
) -> dict[str, Any]:
    """Build the world from raw objects and decide for one pod of it."""
    if config is not None:
        raise NotBuilt(
            "a KubeSchedulerConfiguration is not read yet: leave out the configuration to decide "
            "with the built-in profiles"
        )
    typed = [read_object(obj, i) for i, obj in enumerate(raw, 1)]
    key = pod if "/" in pod else f"default/{pod}"
    world, pods = build_world((o for o in typed if o is not None), besides=key)
    wanted = pods.get(key)
    if wanted is None:
        raise BadRequest(f'pod "{key}" is not among the objects')
    profiles = default_profiles()
    profile = profiles.get(wanted.spec.scheduler_name or "default-scheduler")
    if profile is None:
        raise BadRequest(
            f'pod "{key}": no profile "{wanted.spec.scheduler_name}"; known: {", ".join(profiles)}'
        )
    at = SystemClock().now() if now is None else now
    return decide(profile, wanted, world, at, preempt=preempt)


def _batch() -> None:
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        sys.stdout.buffer.write(msgspec.json.encode(_one(line)) + b"\n")
        sys.stdout.buffer.flush()


def _one(line: bytes) -> dict[str, Any]:
    pod = ""
    try:
        task = msgspec.json.decode(line)
        pod = task.get("pod", "")
        now = parse_rfc3339(task["now"]) if task.get("now") else None
        objects = list(flatten(task.get("objects") or ()))
        return explain_objects(objects, pod, task.get("config"), bool(task.get("preempt")), now)
    except (HoldfastError, msgspec.MsgspecError, ValueError, AttributeError, TypeError) as wrong:
        return {"pod": pod, "error": str(wrong)}


def _read_config(path: Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    documents = parse_documents(path.read_text())
    return documents[0] if documents else None
