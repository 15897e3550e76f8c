"""Evict the pod of a job: through its subresource, by a deletion, or by asking its operator."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api.koordinator_names import EVICT_POLICY, EVICT_REASON, EVICT_TRIGGER, SOFT_EVICTION
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import EVICTION, EVICTION_POLICIES, SOFT, PodMigrationJob
from holdfast.api.scheme import PODS
from holdfast.api.timestamps import rfc3339
from holdfast.client.client import Client
from holdfast.runtime.errors import NotFound
from holdfast.runtime.settings import MigrationSettings

INITIATOR = "koord-descheduler"


def policy_of(job: PodMigrationJob, pod: Pod, default: str) -> str:
    """Return how a pod is evicted, from its own label or else from the job's."""
    for labels in (pod.metadata.labels, job.metadata.labels):
        if (named := labels.get(EVICT_POLICY)) in EVICTION_POLICIES:
            return str(named)
    return default


async def evict(
    client: Client, job: PodMigrationJob, pod: Pod, settings: MigrationSettings, now: float
) -> None:
    """Evict a pod; it is not an error if the pod no longer exists.

    Raises TooManyRequests while a PodDisruptionBudget forbids the eviction.
    """
    given = job.spec.delete_options or settings.delete_options or {}
    preconditions = given.get("preconditions") or {}
    uid = {"preconditions": {"uid": pod.uid, **(msgspec.convert(preconditions, dict[str, Any]))}}
    options: dict[str, Any] = {**given, **uid}
    policy = policy_of(job, pod, settings.eviction_policy)
    try:
        if policy == SOFT:
            await client.patch(PODS, pod.name, _soft_patch(job, pod, options, now), pod.namespace)
            return
        path, method = PODS.path(pod.namespace, pod.name), "DELETE"
        body = {**options, "apiVersion": "v1", "kind": "DeleteOptions"}
        if policy == EVICTION:
            metadata = {"namespace": pod.namespace, "name": pod.name}
            path, method = f"{path}/eviction", "POST"
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata,
                    "deleteOptions": options}  # fmt: skip
        await client.write(method, path, msgspec.json.encode(body))
    except NotFound:
        return


def _soft_patch(
    job: PodMigrationJob, pod: Pod, options: dict[str, Any], now: float
) -> dict[str, Any]:
    notes = job.metadata.annotations
    wish = {
        "timestamp": rfc3339(now),
        "deleteOptions": options,
        "initiator": notes.get(EVICT_TRIGGER) or INITIATOR,
        "reason": notes.get(EVICT_REASON, ""),
    }
    annotations = {SOFT_EVICTION: msgspec.json.encode(wish).decode()}
    return {"metadata": {"uid": pod.uid, "annotations": annotations}}
