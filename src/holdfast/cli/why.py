"""``holdfast why``: explain a pod of a live cluster by deciding for it again, here."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, TypeVar

from holdfast.api import scheme
from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.cli import running
from holdfast.cli.configured import configured
from holdfast.cli.explain import print_answer
from holdfast.cli.snapshot import snapshot_of
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.client.wire import Unreadable
from holdfast.clock import SystemClock
from holdfast.configuration.reading import Configuration
from holdfast.errors import BadConfiguration, NotFound, Refused, Unavailable

T = TypeVar("T", bound=Object)
READ: tuple[Resource[Any], ...] = (
    scheme.NAMESPACES, scheme.NODES, scheme.PODS, scheme.PRIORITY_CLASSES,
    scheme.RESERVATIONS, scheme.RESOURCE_POLICIES, scheme.DEVICE_CLASSES, scheme.RESOURCE_SLICES,
    scheme.RESOURCE_CLAIMS, scheme.DISRUPTION_BUDGETS, scheme.STORAGE_CLASSES,
    scheme.PERSISTENT_VOLUMES, scheme.PERSISTENT_VOLUME_CLAIMS, scheme.CSI_NODES,
    scheme.CSI_DRIVERS, scheme.CSI_STORAGE_CAPACITIES, scheme.VOLUME_ATTACHMENTS,
    scheme.SERVICES, scheme.REPLICATION_CONTROLLERS, scheme.REPLICASETS, scheme.STATEFULSETS,
)  # fmt: skip


def tell(pod: str, kubeconfig: Path | None, config: Path | None, output: str) -> None:
    """Say why a pod (``namespace/name``) is, or is not, where it is."""
    answer = asyncio.run(_ask(pod, kubeconfig, configured(config)))
    print_answer(answer, output)


async def _ask(key: str, kubeconfig: Path | None, configuration: Configuration) -> dict[str, Any]:
    endpoint = await _endpoint(kubeconfig)
    client = Client(HttpTransport(endpoint), "holdfast-why")
    namespace, _, name = key.partition("/")
    try:
        found = await client.get(scheme.PODS, name, namespace)
        objects = [obj for resource in READ for obj in await _all(client, resource)]
    except NotFound as missing:
        raise Refused(
            f'there is no pod "{name}" in namespace "{namespace}" at {endpoint.url}: '
            "`kubectl get pods -A` lists them; -n names the namespace"
        ) from missing
    except Unavailable as failure:
        raise Refused(
            f"{endpoint.url} does not answer ({failure}): start the embedded cluster with "
            "`holdfast up`, or name another with --kubeconfig"
        ) from failure
    finally:
        await client.close()
    answer = snapshot_of(objects, key).explain(
        configuration.profiles, SystemClock().now(), preempt=True
    )
    return {**answer, "nodeName": found.spec.node_name or None}


async def _endpoint(kubeconfig: Path | None) -> Any:
    try:
        return await load(kubeconfig)
    except BadConfiguration as wrong:
        embedded = running.find(running.data_dir(None))
        if kubeconfig is None and embedded is not None:
            raise BadConfiguration(
                f"{wrong}; one runs already: export KUBECONFIG={embedded.kubeconfig}"
            ) from wrong
        raise


async def _all(client: Client, resource: Resource[T]) -> tuple[T, ...]:
    try:
        return (await client.list(resource, unreadable=_say_unreadable)).items
    except NotFound:
        return ()  # a custom resource whose definition is not installed


def _say_unreadable(broken: Unreadable) -> None:
    print(f"holdfast: {broken}; deciding without it", file=sys.stderr)
