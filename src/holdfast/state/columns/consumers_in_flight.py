"""Consumers of resource claims that are decided and not stored yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.api.devices import ClaimConsumer, pod_consumer
from holdfast.api.pod import Pod


@dataclass(slots=True)
class _Entry:
    consumer: dict[str, str]
    has_joined: bool = False
    allocation: Any = None


class ConsumersInFlight:
    """The pods that get a claim: from Reserve until the claim is stored with them.

    The write of one pod reserves the claim for all that have joined: pods that share a claim wait
    for their turn to write it, and most find that the claim is reserved for them already.
    """

    def __init__(self) -> None:
        self._by_claim: dict[str, dict[str, _Entry]] = {}

    def add(self, claim_uid: str, pod: Pod) -> None:
        """Count a pod as a consumer of a claim."""
        self._by_claim.setdefault(claim_uid, {})[pod.uid] = _Entry(pod_consumer(pod))

    def join(self, claim_uid: str, pod: Pod, allocation: Any) -> None:
        """Let writes of other pods reserve the claim for this one, if its allocation is equal."""
        entry = _Entry(pod_consumer(pod), has_joined=True, allocation=allocation)
        self._by_claim.setdefault(claim_uid, {})[pod.uid] = entry

    def remove(self, claim_uid: str, pod_uid: str) -> None:
        """End the entry of a pod: the claim is stored with it, or the attempt failed."""
        entries = self._by_claim.get(claim_uid, {})
        entries.pop(pod_uid, None)
        if not entries:
            self._by_claim.pop(claim_uid, None)

    def size(self, claim_uid: str) -> int:
        """Count the consumers of a claim in flight."""
        return len(self._by_claim.get(claim_uid, ()))

    def count(self, claim_uid: str, stored: Iterable[ClaimConsumer], besides: str) -> int:
        """Count the consumers of a claim, stored or in flight, ``besides`` a pod."""
        uids = {consumer.uid for consumer in stored}
        uids |= self._by_claim.get(claim_uid, {}).keys()
        return len(uids - {besides})

    def to_write(
        self, claim_uid: str, stored: Sequence[ClaimConsumer], pod: Pod, allocation: Any, most: int
    ) -> list[Any]:
        """Return ``reservedFor`` with a pod and with those that joined, at most ``most``."""
        consumers: dict[str, Any] = {consumer.uid: consumer for consumer in stored}
        consumers[pod.uid] = pod_consumer(pod)
        for uid, consumer in self._joined(claim_uid, allocation):
            if len(consumers) >= most:
                break
            consumers.setdefault(uid, consumer)
        return [*consumers.values()]

    def _joined(self, claim_uid: str, allocation: Any) -> Iterator[tuple[str, dict[str, str]]]:
        for uid, entry in self._by_claim.get(claim_uid, {}).items():
            if entry.has_joined and entry.allocation == allocation:
                yield uid, entry.consumer

    def fork(self) -> ConsumersInFlight:
        """Return an independent copy."""
        copy = ConsumersInFlight()
        copy._by_claim = {uid: dict(entries) for uid, entries in self._by_claim.items()}
        return copy


def too_many_consumers(claim: str, most: int) -> str:
    """Return the message that a claim, ``namespace/name``, has as many consumers as it can have."""
    return (
        f"resourceclaim in use: {claim} is reserved for {most} pods, the most that a claim can have"
    )
