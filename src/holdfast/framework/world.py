"""Everything deciding looks at: nodes and pods, promises, devices, volumes, namespaces, budgets.

The scheduler feeds it from informers and ``holdfast explain`` from a file; both only say what
objects there are. Pods that are bound to no node are not part of it (they wait in a queue), and
finished pods do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.api.workloads import Namespace, PodDisruptionBudget
from holdfast.capacity.offers import Offers
from holdfast.capacity.policies import Policies
from holdfast.capacity.reserve_pod import reserve_pod
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.volumes import Volumes
from holdfast.devices.inventory import Inventory
from holdfast.framework.evictions import Evictions
from holdfast.framework.nominations import NominatedOwnerRows, Nominations
from holdfast.framework.values import Placement
from holdfast.framework.waiting_pods import WaitingPods
from holdfast.framework.workload_selectors import WorkloadSelectors

if TYPE_CHECKING:
    from holdfast.framework.view import MatchedReservations


class Ledger(Protocol):
    """A ledger of promises or devices that takes objects of some kinds."""

    @property
    def takes(self) -> tuple[type[Object], ...]:
        """The kinds."""
        ...

    def upsert(self, obj: Any) -> None:
        """Take in an object, new or changed."""
        ...

    def delete(self, obj: Any) -> None:
        """Let an object go; an unknown one is fine."""
        ...

    def fork(self, nodes: NodeTable) -> Any:
        """An independent copy over a forked picture."""
        ...


@runtime_checkable
class PodEventHandler(Protocol):
    """A ledger that also wants to know which pods stand where. Told after the picture."""

    def pod_set(self, pod_info: PodInfo, node: str) -> None:
        """A bound pod is new or changed; may be told of pods it knows as assumed."""
        ...

    def pod_removed(self, uid: str) -> None:
        """A bound or assumed pod is gone; may be one it never heard of."""
        ...


class AttemptAuditor(Protocol):
    """Compare the world before and after every attempt, if invariants are checked."""

    def note_faults(self, faults: Iterable[str]) -> None:
        """Note what is wrong with a decision; looking for it is work that may be left out."""
        ...

    def before_attempt(self) -> None:
        """Note the state of the ledgers."""
        ...

    def after_attempt(self, placement: Placement | None) -> None:
        """Compare it with now; None is for an attempt that found no node."""
        ...

    def raise_faults(self) -> None:
        """Raise an AssertionError if an invariant was broken."""
        ...


class World:
    """The cluster as deciding sees it."""

    def __init__(
        self,
        nodes: NodeTable | None = None,
        *,
        offers: Offers | None = None,
        policies: Policies | None = None,
        devices: Inventory | None = None,
        volumes: Volumes | None = None,
        selectors: WorkloadSelectors | None = None,
        uncounted: Callable[[str], bool] = lambda _resource: False,
        auditor: Callable[[World], AttemptAuditor] | None = None,
    ) -> None:
        self.nodes = NodeTable() if nodes is None else nodes
        # An empty ledger is falsy: only None means that there is none yet.
        self.offers = Offers(self.nodes) if offers is None else offers
        self.policies = Policies(self.nodes) if policies is None else policies
        self.devices = Inventory(self.nodes) if devices is None else devices
        self.volumes = Volumes(self.nodes) if volumes is None else volumes
        self.selectors = WorkloadSelectors(self.nodes) if selectors is None else selectors
        self._pod_watchers = [
            ledger for ledger in self.ledgers if isinstance(ledger, PodEventHandler)
        ]
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.nominations = Nominations(self.nodes)
        self.nominated_owner_rows = NominatedOwnerRows(self)
        self.evictions = Evictions(self.nodes)
        self.waiting = WaitingPods()
        self.ignores_resource = uncounted
        """Tells resources that nobody here counts, by configuration: somebody else does."""
        self.auditor = None if auditor is None else auditor(self)
        self.caches: dict[Hashable, Any] = {}
        """What deciding and plugins keep about this world between pods, under their own keys."""

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of the namespaces we were told about."""
        return self.nodes.namespaces

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """The ledgers of capacity, devices and volumes, and what workloads select."""
        return (self.offers, self.policies, self.devices, self.volumes, self.selectors)

    def pod_info(self, pod: Pod, *, is_reserve_pod: bool = False) -> PodInfo:
        """Digest a pod in this world's resource ids."""
        return self.nodes.pod_info(pod, is_reserve_pod=is_reserve_pod)

    def reserve_pod_info(self, reservation: Reservation) -> PodInfo:
        """Digest the pod that looks for a node in the place of a reservation."""
        return self.pod_info(reserve_pod(reservation), is_reserve_pod=True)

    def match(self, pod: PodInfo) -> MatchedReservations | None:
        """The offers of held room a pod may draw on, or None."""
        return self.offers.match(pod)

    def upsert(self, obj: Object) -> None:
        """Take in an object, new or changed; kinds nobody reads are ignored."""
        match obj:
            case Pod():
                self._upsert_pod(obj)
            case Node():
                self.nodes.upsert_node(obj)
            case Namespace():
                self.nodes.set_namespace_labels(obj.name, obj.metadata.labels)
            case PodDisruptionBudget():
                self.budgets[obj.key] = obj
                self.nodes.epochs.bump("budgets")
                if (chosen := obj.spec.selector) is not None:
                    named = (term.key for term in chosen.match_expressions)
                    self.nodes.add_selector_keys(frozenset((*chosen.match_labels, *named)))
        for ledger in self.ledgers:
            if isinstance(obj, ledger.takes):
                ledger.upsert(obj)

    def delete(self, obj: Object) -> None:
        """Let an object go."""
        match obj:
            case Pod():
                self._drop_pod(self._uid(obj))
            case Node():
                self.nodes.delete_node(obj.name)
            case Namespace():
                self.nodes.set_namespace_labels(obj.name, None)
            case PodDisruptionBudget():
                self.budgets.pop(obj.key, None)
                self.nodes.epochs.bump("budgets")
        for ledger in self.ledgers:
            if isinstance(obj, ledger.takes):
                ledger.delete(obj)

    def nominate(self, waiting: PodInfo) -> None:
        """Keep room for a waiting pod on the node its status names, and on no other."""
        node = waiting.pod.status.nominated_node_name
        if node or self.nominations:
            self.nominations.set(waiting, node)

    def assume(self, pod: PodInfo, row: int) -> None:
        """Put a pod on a row before the API server knows; its nomination has served."""
        if self.nominations:
            self.nominations.clear(pod.uid)
            self.evictions.end(pod.uid)
        self.nodes.assume(pod, row)

    def forget(self, uid: str) -> None:
        """Withdraw an assumption."""
        self.nodes.forget(uid)

    def fork(self) -> World:
        """An independent copy, for what-if and dry runs."""
        nodes = self.nodes.fork()
        copy = World(
            nodes,
            offers=self.offers.fork(nodes),
            policies=self.policies.fork(nodes),
            devices=self.devices.fork(nodes),
            volumes=self.volumes.fork(nodes),
            selectors=self.selectors.fork(nodes),
            uncounted=self.ignores_resource,
        )
        copy.budgets = dict(self.budgets)
        copy.nominations = self.nominations.fork(nodes)
        copy.evictions = self.evictions.fork(nodes)
        copy.waiting = self.waiting.fork()
        return copy

    def _upsert_pod(self, pod: Pod) -> None:
        uid, node = self._uid(pod), pod.spec.node_name
        if pod.finished:
            self._drop_pod(uid)
        elif node:
            pod_info = self.pod_info(pod)
            self.nominations.clear(uid)
            self.evictions.end(uid)
            self.nodes.add_pod(pod_info, node)
            for ledger in self._pod_watchers:
                ledger.pod_set(pod_info, node)
        else:
            self.nominate(self.pod_info(pod))

    def _drop_pod(self, uid: str) -> None:
        self.nominations.clear(uid)
        self.evictions.end(uid)
        self.nodes.remove_pod(uid)
        for ledger in self._pod_watchers:
            ledger.pod_removed(uid)

    @staticmethod
    def _uid(pod: Pod) -> str:
        return pod.uid or pod.key
