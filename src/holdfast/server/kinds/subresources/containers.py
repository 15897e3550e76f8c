"""Logs, exec, attach and port-forward of pods: served by the agent of the pod's node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from holdfast.api import field_errors
from holdfast.api.decode import JsonObject
from holdfast.api.node_names import CERTIFICATE_ANNOTATION
from holdfast.api.timestamps import parse_rfc3339
from holdfast.runtime.errors import BadRequest, Cause, FieldErrors, NotBuilt
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode
from holdfast.server.store import ObjectKey
from holdfast.server.verbs.updating import latest_object
from holdfast.server.wire.kubelet_client import KubeletClient, KubeletEndpoint, Query, pieces
from holdfast.server.wire.query_options import integer_option
from holdfast.server.wire.request_info import is_true
from holdfast.server.wire.responses import (
    ServerResponse,
    StreamResponse,
    WebSocketProxy,
    text_response,
)

_LOG_STREAMS = ("All", "Stderr", "Stdout")
_LOG_FLAGS = ("follow", "previous", "timestamps")
_LOG_NUMBERS = (("sinceSeconds", 1), ("tailLines", 0), ("limitBytes", 1))
"""Numeric log options with their minimum values."""
_LISTS = ("containers", "initContainers", "ephemeralContainers")


async def read_log(op: Operation) -> ServerResponse:
    """Stream the log of a container."""
    pod = decode(latest_object(op))
    query = _log_query(op)
    container = _container(pod, op.request.query.get("container", ""))
    node = pod["spec"].get("nodeName")
    if not node:
        return text_response("")
    client, endpoint = _node(op, node, "its containers write no log")
    path = ("containerLogs", *_pod_path(op), container)
    response = await client.get(endpoint, path, query)
    headers = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-cache, private"}
    return StreamResponse(pieces(response), response.close, headers=headers)


async def exec_command(op: Operation) -> ServerResponse:
    """Run a command in a container."""
    commands = op.request.repeated.get("command") or (op.request.query.get("command", ""),)
    if not commands[0]:
        raise BadRequest("you must specify at least 1 command for the container")
    return await _attached(op, "exec", [("command", part) for part in commands])


async def attach(op: Operation) -> ServerResponse:
    """Attach to the running process of a container."""
    return await _attached(op, "attach", [])


async def forward_port(op: Operation) -> ServerResponse:
    """Forward ports of a pod; the client's streams name the ports."""
    pod = _running_pod(op)
    return await _upgraded(op, pod, ("portForward", *_pod_path(op)), [])


async def _attached(op: Operation, action: str, query: list[tuple[str, str]]) -> ServerResponse:
    pod = _running_pod(op)
    options = op.request.query
    flags = [n for n in ("stdin", "stdout", "stderr", "tty") if is_true(options.get(n))]
    if not {"stdin", "stdout", "stderr"} & set(flags):
        raise BadRequest("you must specify at least one of stdin, stdout, stderr")
    container = _container(pod, options.get("container", ""))
    path = (action, *_pod_path(op), container)
    return await _upgraded(op, pod, path, [*query, *((flag, "true") for flag in flags)])


async def _upgraded(
    op: Operation, pod: JsonObject, path: tuple[str, ...], query: Query
) -> ServerResponse:
    client, endpoint = _node(op, pod["spec"]["nodeName"], "its containers run nothing")
    # kubectl tries SPDY when a WebSocket is refused, so other errors are reported first.
    upgrade = op.request.headers.get("upgrade", "").lower()
    if upgrade != "websocket":
        spdy = "; SPDY is not served: use kubectl 1.31 or newer" if "spdy" in upgrade else ""
        raise BadRequest(f"Upgrade request required{spdy}")
    # A WebSocket begins with a GET, and a GET must not suffice to change something.
    op.context.authorizer.check(op.user, replace(op.request_info, verb="create"))
    offered = op.request.headers.get("sec-websocket-protocol", "").split(",")
    protocols = [name.strip() for name in offered if name.strip()]
    return WebSocketProxy(await client.open_web_socket(endpoint, path, query, protocols))


def _running_pod(op: Operation) -> JsonObject:
    pod = decode(latest_object(op))
    name, phase = op.request_info.name, (pod.get("status") or {}).get("phase", "")
    if phase in ("Succeeded", "Failed"):
        raise BadRequest(
            f"cannot exec into a container in a completed pod; current phase is {phase}"
        )
    if not pod["spec"].get("nodeName"):
        raise BadRequest(f"pod {name} does not have a host assigned")
    return pod


def _pod_path(op: Operation) -> tuple[str, str]:
    return op.request_info.namespace, op.request_info.name


def _container(pod: JsonObject, wanted: str) -> str:
    """Return the name of the container; raise BadRequest if it is missing or unknown."""
    name = pod["metadata"]["name"]
    names = {kind: [c["name"] for c in pod["spec"].get(kind) or ()] for kind in _LISTS}
    if wanted:
        if not any(wanted in listed for listed in names.values()):
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    containers, init_containers, _ = names.values()
    if len(containers) == 1:
        return str(containers[0])
    problem = f"a container name must be specified for pod {name}"
    if containers:
        problem += f", choose one of: [{' '.join(containers)}]"
    if init_containers:
        problem += f" or one of the init containers: [{' '.join(init_containers)}]"
    raise BadRequest(problem)


def _node(op: Operation, name: str, simulated: str) -> tuple[KubeletClient, KubeletEndpoint]:
    """Return how to reach the agent of a node."""
    client, stored = (
        op.context.kubelet_client,
        op.context.store.get(ObjectKey("", "nodes", "", name)),
    )
    if stored is None:
        raise BadRequest(f'node "{name}" of pod "{op.request_info.name}" does not exist')
    node = decode(stored)
    status = node.get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    addresses = {a.get("type"): a.get("address") for a in status.get("addresses") or ()}
    host = addresses.get("InternalIP") or addresses.get("Hostname")
    if client is None or not port or not host:
        raise NotBuilt(
            f'pods/{op.request_info.subresource} of pod "{op.request_info.name}" is not available: '
            f'node "{name}" is simulated, {simulated}'
        )
    annotations = node["metadata"].get("annotations") or {}
    return client, KubeletEndpoint(name, host, port, annotations.get(CERTIFICATE_ANNOTATION, ""))


def _log_query(op: Operation) -> list[tuple[str, str]]:
    """Return the options of a log, checked; raise Invalid."""
    query = op.request.query
    FieldErrors(list(_log_problems(query))).raise_if_any("PodLogOptions", op.request_info.name)
    options = [(name, "true") for name in _LOG_FLAGS if is_true(query.get(name))]
    others = ("sinceTime", "stream", *(name for name, _ in _LOG_NUMBERS))
    return options + [(name, query[name]) for name in others if query.get(name)]


def _log_problems(query: Mapping[str, str]) -> Iterator[Cause]:
    for name, least in _LOG_NUMBERS:
        number = integer_option(query, name)
        if number is not None and number < least:
            yield field_errors.invalid(name, number, f"must be greater than or equal to {least}")
    if query.get("sinceTime"):
        parse_rfc3339(query["sinceTime"])
        if query.get("sinceSeconds"):
            yield field_errors.forbidden(
                "", "at most one of `sinceTime` or `sinceSeconds` may be specified"
            )
    stream = query.get("stream", "")
    if stream and stream not in _LOG_STREAMS:
        yield field_errors.not_supported("stream", stream, _LOG_STREAMS)
    elif stream not in ("", "All") and query.get("tailLines"):
        yield field_errors.forbidden(
            "", "`tailLines` and specific `stream` are mutually exclusive for now"
        )
