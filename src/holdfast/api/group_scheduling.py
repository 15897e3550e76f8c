"""Labels, annotations and fields with which pods ask for gangs or elastic quotas.

They have no effect yet: the API server warns about them, and the scheduler writes an event. When a
key gets an effect, it is removed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from holdfast.api.meta import ObjectMeta
from holdfast.api.pod import Pod

NOT_IMPLEMENTED = "NotImplemented"
"""The reason of events about settings that are stored without effect."""
NO_GANGS = "pods are scheduled one by one, not in gangs"
NO_QUOTAS = "elastic quotas are not enforced; a ResourceQuota limits a namespace"
KEYS: Mapping[str, str] = {
    "gang.scheduling.koordinator.sh/*": NO_GANGS,
    "pod-group.scheduling.sigs.k8s.io": NO_GANGS,
    "pod-group.scheduling.sigs.k8s.io/*": NO_GANGS,
    "scheduling.x-k8s.io/pod-group": NO_GANGS,
    "scheduling.k8s.io/group-name": NO_GANGS,
    "scheduling.volcano.sh/*": NO_GANGS,
    "volcano.sh/*": NO_GANGS,
    "quota.scheduling.koordinator.sh/*": NO_QUOTAS,
}
"""What does not happen, by label or annotation; ``*`` means every name of the domain."""
NAMESPACE_KEYS = ("scheduling.volcano.sh/*", "quota.scheduling.koordinator.sh/*")
"""Keys of a Namespace with which all its pods ask for elastic quotas: a queue, a tree."""
KINDS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("scheduling.sigs.k8s.io", "podgroups"): ("PodGroup", NO_GANGS),
    ("scheduling.x-k8s.io", "podgroups"): ("PodGroup", NO_GANGS),
    ("scheduling.volcano.sh", "podgroups"): ("PodGroup", NO_GANGS),
    ("scheduling.volcano.sh", "queues"): ("Queue", NO_QUOTAS),
    ("batch.volcano.sh", "jobs"): ("Job", "nothing creates pods of them"),
    ("scheduling.sigs.k8s.io", "elasticquotas"): ("ElasticQuota", NO_QUOTAS),
    ("scheduling.x-k8s.io", "elasticquotas"): ("ElasticQuota", NO_QUOTAS),
    ("quota.koordinator.sh", "elasticquotaprofiles"): ("ElasticQuotaProfile", NO_QUOTAS),
}
"""The kind and what does not happen, by group and plural of custom resources."""


def ignored_group_requests(pod: Pod) -> Iterator[str]:
    """Yield a sentence for each label, annotation and field of a pod that has no effect."""
    yield from ignored_keys(pod.metadata)
    if pod.spec.scheduling_group:
        yield not_read("schedulingGroup", NO_GANGS)
    if pod.spec.workload_ref:  # of Kubernetes 1.35
        yield not_read("workloadRef", NO_GANGS)


def ignored_keys(meta: ObjectMeta) -> Iterator[str]:
    """Yield a sentence for each label and annotation that has no effect."""
    for values in (meta.labels, meta.annotations):
        for key, value in values.items():
            if value and (sentence := _sentence(key)):
                yield not_read(key, sentence)


def not_read(name: str, sentence: str) -> str:
    """Return the warning about a key or a field."""
    return f"{name} is not read: {sentence}"


@lru_cache(4096)
def _sentence(key: str) -> str:
    return KEYS.get(key) or KEYS.get(f"{key.partition('/')[0]}/*", "")
