"""``holdfast why``: explain a pod of a live cluster by scheduling it again, locally."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast.api import scheme
from holdfast.api.pod import Pod
from holdfast.cli.connection import connect, list_all
from holdfast.cli.explain import print_answer
from holdfast.cli.pod_progress import add_claim_failures, drivers_of_claims, read_reports
from holdfast.cli.scheduler_configuration import SchedulerSetup
from holdfast.cli.snapshot import snapshot_from_objects
from holdfast.client.client import Client
from holdfast.client.discovery import find_classic_resources
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import NotFound, Refused
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.scheduling.configuration.reading import Configuration


def explain_pod(
    pod: str, kubeconfig: Path | None, config: Path | None, gates: str, output: str
) -> None:
    """Print why a pod (``namespace/name``) is on its node, or has none."""
    answer = asyncio.run(_explain(pod, kubeconfig, config, gates))
    print_answer(answer, output)


async def _explain(
    key: str, kubeconfig: Path | None, config: Path | None, chosen: str
) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    async with connect(kubeconfig, "holdfast-why") as (client, endpoint):
        setup = SchedulerSetup(client, endpoint.url, kubeconfig)
        configuration, gates = await setup.read(config, chosen)
        try:
            pod = await client.get(scheme.PODS, name, namespace)
        except NotFound as missing:
            raise Refused(
                f'there is no pod "{name}" in namespace "{namespace}" at {endpoint.url}: '
                "`kubectl get pods -A` lists them; -n names the namespace"
            ) from missing
        return await answer_about(client, pod, configuration, gates, SystemClock().now())


async def answer_about(
    client: Client, pod: Pod, configuration: Configuration, gates: FeatureGates, now: float
) -> dict[str, Any]:
    """Schedule a pod again at a time, and add what the cluster reports about it."""
    classic = await find_classic_resources(client)
    snapshot = snapshot_from_objects(await list_all(client), pod.key, gates)
    snapshot.world.classic.resources = classic
    reports = await read_reports(client, pod)
    if "notStarted" in reports:
        reports["notStarted"]["drivers"] = drivers_of_claims(snapshot.world, pod)
    answer = snapshot.explain(
        configuration.profiles, now, preempt=True, extenders=configuration.extenders
    )
    await add_claim_failures(client, snapshot.world, pod, answer)
    return (
        answer
        | {"nodeName": pod.spec.node_name or None, "lastAttempt": last_attempt(pod)}
        | reports
    )


def last_attempt(pod: Pod) -> dict[str, str] | None:
    """Return the reason and message of the scheduler's last attempt, if it has failed."""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False":
        return None
    return {"reason": condition.reason, "message": condition.message}
