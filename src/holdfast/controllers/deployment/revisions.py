"""The revisions of a Deployment: one ReplicaSet for each pod template."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.api.meta import owner_reference
from holdfast.api.names import SAFE_LETTERS
from holdfast.api.workloads import (
    POD_TEMPLATE_HASH,
    Deployment,
    ReplicaSet,
    comparable_template,
    same_template,
)
from holdfast.controllers.deployment.rollout import DESIRED, MAXIMUM, ReplicaBounds

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
_NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MAXIMUM,
    "deprecated.deployment.rollback.to",
}  # fmt: skip
_MAX_HISTORY_LENGTH = 2000
_MAX_NAME_LENGTH = 253


def template_hash(template: Mapping[str, Any], collisions: int) -> str:
    """Return a hash of a template, in letters that cannot form words."""
    text = msgspec.json.encode(comparable_template(template), order="deterministic")
    number = zlib.crc32(text + (str(collisions).encode() if collisions else b""))
    return "".join(SAFE_LETTERS[ord(digit) % len(SAFE_LETTERS)] for digit in str(number))


def current_replicaset(
    deployment: Deployment, replicasets: Iterable[ReplicaSet]
) -> ReplicaSet | None:
    """Return the ReplicaSet with the Deployment's template, the oldest if there are several."""
    same = [r for r in replicasets if same_template(r.spec.template, deployment.spec.template)]
    return min(same, key=lambda r: (r.metadata.creation_timestamp or "", r.name), default=None)


def revision_of(replicaset: ReplicaSet) -> int:
    """Return the revision number, 0 if there is none."""
    text = replicaset.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdigit() else 0


def new_replicaset(deployment: Deployment, replicas: int, revision: int) -> dict[str, Any]:
    """Return a new ReplicaSet for the Deployment's current template."""
    template = deployment.spec.template
    name_hash = template_hash(template, deployment.status.collision_count or 0)
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), POD_TEMPLATE_HASH: name_hash}
    selector = msgspec.to_builtins(deployment.spec.selector)
    selector["matchLabels"] = {**selector.get("matchLabels", {}), POD_TEMPLATE_HASH: name_hash}
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment.name[: _MAX_NAME_LENGTH - 1 - len(name_hash)]}-{name_hash}",
            "namespace": deployment.namespace, "labels": labels,
            "annotations": {
                **copied_annotations(deployment), **size_annotations(ReplicaBounds.of(deployment)),
                REVISION: str(revision),
            },
            "ownerReferences": [owner_reference("apps/v1", "Deployment", deployment)],
        },
        "spec": {
            "replicas": replicas, "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": selector, "template": {**template, "metadata": {**meta, "labels": labels}},
        },
    }  # fmt: skip


def copied_annotations(deployment: Deployment) -> dict[str, str]:
    """Return the annotations that are copied from a Deployment to its ReplicaSet."""
    return {k: v for k, v in deployment.metadata.annotations.items() if k not in _NOT_COPIED}


def size_annotations(bounds: ReplicaBounds) -> dict[str, str]:
    """Return the annotations of the scale; a later scaling is detected from them."""
    return {DESIRED: str(bounds.replicas), MAXIMUM: str(bounds.max_replicas)}


def annotation_changes(
    deployment: Deployment, replicaset: ReplicaSet, revision: int
) -> dict[str, str]:
    """Return the annotations of the current ReplicaSet to change.

    In a rollback the ReplicaSet has a lower revision: it gets the highest one, and the old
    revision is added to its history.
    """
    have = replicaset.metadata.annotations
    changes = {k: v for k, v in copied_annotations(deployment).items() if have.get(k) != v}
    before = revision_of(replicaset)
    if before < revision:
        changes[REVISION] = str(revision)
        if REVISION in have:
            changes[HISTORY] = _history(have.get(HISTORY, ""), have[REVISION])
    return changes


def _history(history: str, revision: str) -> str:
    numbers = [n for n in history.split(",") if n] + [revision]
    while len(",".join(numbers)) > _MAX_HISTORY_LENGTH:
        numbers.pop(0)
    return ",".join(numbers)
