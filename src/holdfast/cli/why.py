"""``holdfast why``: explain a pod of a live cluster by deciding for it again, here."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast.api import scheme
from holdfast.cli.configured import configured_for
from holdfast.cli.connection import connected, everything
from holdfast.cli.explain import print_answer
from holdfast.cli.snapshot import snapshot_of
from holdfast.clock import SystemClock
from holdfast.errors import NotFound, Refused


def tell(pod: str, kubeconfig: Path | None, config: Path | None, output: str) -> None:
    """Say why a pod (``namespace/name``) is, or is not, where it is."""
    answer = asyncio.run(_ask(pod, kubeconfig, config))
    print_answer(answer, output)


async def _ask(key: str, kubeconfig: Path | None, config: Path | None) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    async with connected(kubeconfig, "holdfast-why") as (client, endpoint):
        configuration = configured_for(endpoint.url, kubeconfig, config)
        try:
            found = await client.get(scheme.PODS, name, namespace)
        except NotFound as missing:
            raise Refused(
                f'there is no pod "{name}" in namespace "{namespace}" at {endpoint.url}: '
                "`kubectl get pods -A` lists them; -n names the namespace"
            ) from missing
        objects = await everything(client)
    answer = snapshot_of(objects, key).explain(
        configuration.profiles, SystemClock().now(), preempt=True,
        extenders=configuration.extenders,
    )  # fmt: skip
    return {**answer, "nodeName": found.spec.node_name or None}
