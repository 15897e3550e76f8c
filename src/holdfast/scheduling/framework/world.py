"""Everything that a decision depends on: nodes, pods, reservations, claims, volumes, budgets.

The scheduler updates it from informers, ``holdfast explain`` from a file. Pods without a node are
not part of it, except for nominated ones; finished pods are ignored.

Informers have no common order: a pod may come before its node, or before the reservation that it
names. So no ledger refuses an object that refers to an unknown one. The state after some events
must be the same whatever their order was; decisions, replicas and restarts depend on it. When an
object makes another one readable, the world passes the other one to the ledgers again
(``_upsert_pods_naming``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.api.koordinator_names import DEVICE_ALLOCATED, RESOURCE_STATUS
from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.api.workloads import Namespace, PodDisruptionBudget
from holdfast.scheduling.framework.evictions import Evictions
from holdfast.scheduling.framework.ledgers import (
    AdditionalAmounts,
    AttemptAuditor,
    IdentifiesResources,
    Ledger,
    PodEventHandler,
)
from holdfast.scheduling.framework.nominations import NominatedOwnerRows, Nominations
from holdfast.scheduling.framework.waiting_pods import WaitingPods
from holdfast.scheduling.framework.workload_selectors import WorkloadSelectors
from holdfast.state.classic_dra.ledger import ClassicLedger
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.device_share.ledger import DeviceShareLedger
from holdfast.state.device_share.numa_hints import DeviceHints
from holdfast.state.device_share.recorded_use import possible_devices
from holdfast.state.devices.inventory import Inventory
from holdfast.state.numa.ledger import NumaLedger
from holdfast.state.numa.resource_status import possible_status
from holdfast.state.recorded_allocations import DISPUTED, RecordedAllocations, Source
from holdfast.state.reservations.operating_pods import operating_reservation
from holdfast.state.reservations.reservation_cache import ReservationCache
from holdfast.state.reservations.reserve_pod import reserve_pod
from holdfast.state.resource_policies.policy_cache import Policies
from holdfast.state.volumes import Volumes

if TYPE_CHECKING:
    from holdfast.scheduling.framework.view import MatchedReservations


class World:
    """The state of the cluster, for decisions.

    The ledgers that handle an event are looked up once per type of object. Asking each ledger by
    ``isinstance``, which is slow for protocols, was part of the cost of every watch event: the
    events of a pod took 37 µs, now they take 29.
    """

    def __init__(
        self,
        nodes: NodeTable | None = None,
        *,
        reservations: ReservationCache | None = None,
        policies: Policies | None = None,
        devices: Inventory | None = None,
        volumes: Volumes | None = None,
        classic: ClassicLedger | None = None,
        numa: NumaLedger | None = None,
        device_share: DeviceShareLedger | None = None,
        selectors: WorkloadSelectors | None = None,
        ignores_resource: Callable[[str], bool] = lambda _resource: False,
        auditor: Callable[[World], AttemptAuditor] | None = None,
    ) -> None:
        self.nodes = NodeTable() if nodes is None else nodes
        # An empty ledger is falsy, so compare with None.
        self.reservations = ReservationCache(self.nodes) if reservations is None else reservations
        self.policies = Policies(self.nodes) if policies is None else policies
        self.devices = Inventory(self.nodes) if devices is None else devices
        self.volumes = Volumes(self.nodes) if volumes is None else volumes
        self.classic = ClassicLedger(self.nodes) if classic is None else classic
        self.numa = NumaLedger(self.nodes) if numa is None else numa
        self.device_share = DeviceShareLedger(self.nodes) if device_share is None else device_share
        self.selectors = WorkloadSelectors(self.nodes) if selectors is None else selectors
        self.recorded = RecordedAllocations(
            self._find_reservation,
            self.reservations.is_pre_allocating,
            self.nodes.is_ours,
            self._possible,
        )
        self._connect_ledgers()
        ledgers = self.ledgers
        self._pod_handlers = [each for each in ledgers if isinstance(each, PodEventHandler)]
        self._amount_ledgers = [each for each in ledgers if isinstance(each, AdditionalAmounts)]
        self._identifying_ledgers = [
            each for each in ledgers if isinstance(each, IdentifiesResources)
        ]
        self._ledgers_of: dict[type[Object], tuple[Ledger, ...]] = {}
        """The ledgers that store objects of a type."""
        self._gives_amounts: dict[type[Object], bool] = {}
        """Whether one of them gives nodes additional amounts, by type."""
        self._upserts_of: dict[type[Object], tuple[Callable[[Any], object], ...]] = {}
        """The functions that store an object of a type, in the order in which they are called."""
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.nominations = Nominations(self.nodes)
        self.nominated_owner_rows = NominatedOwnerRows(self)
        self.evictions = Evictions(self.nodes)
        self.waiting = WaitingPods()
        self.ignores_resource = ignores_resource
        """Whether the configuration leaves a resource to an extender, by its name."""
        self.auditor = None if auditor is None else auditor(self)
        self.caches: dict[Hashable, Any] = {}
        """Caches of decisions and plugins for this world; each uses its own key."""

    def _connect_ledgers(self) -> None:
        """Give ledgers what they need of others: NUMA hints of devices, reports of disputes.

        Without the hints both ledgers work, and nothing looks wrong: a pod got the CPUs of one NUMA
        node and a GPU of another, under a policy that forbids that.
        """
        self.numa.hint_providers = (
            DeviceHints(
                self.device_share,
                self.nodes,
                self.reservations.restricted_device_types,
                self.devices.device_backed,
            ),
        )
        self.numa.on_dispute = partial(self._report_dispute, key=RESOURCE_STATUS)
        self.device_share.on_dispute = partial(self._report_dispute, key=DEVICE_ALLOCATED)

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of the known namespaces."""
        return self.nodes.namespaces

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """The ledgers, and workload selectors."""
        return (
            self.reservations,
            self.policies,
            self.devices,
            self.volumes,
            self.classic,
            self.numa,
            self.device_share,
            self.selectors,
        )

    def pod_info(self, pod: Pod, *, is_reserve_pod: bool = False) -> PodInfo:
        """Return a pod's scheduling information, in this world's resource ids."""
        return self.nodes.pod_info(pod, is_reserve_pod=is_reserve_pod)

    def reserve_pod_info(self, reservation: Reservation) -> PodInfo:
        """Return the scheduling information of a reservation's reserve pod."""
        return self.pod_info(reserve_pod(reservation), is_reserve_pod=True)

    def match(self, pod: PodInfo) -> MatchedReservations | None:
        """Return the reservations that a pod may use, or None."""
        return self.reservations.match(pod)

    def identified_resources(self, pod: PodInfo, row: int) -> frozenset[int]:
        """Return the resources that the pod gets as specific units (CPUs, devices) on a row.

        The units come from one reservation; several reservations do not add up.
        """
        resources: frozenset[int] = frozenset()
        for ledger in self._identifying_ledgers:
            resources |= ledger.identified_resources(pod, row)
        return resources

    def upsert(self, obj: Object) -> None:
        """Add or update an object; kinds that nothing here reads are ignored."""
        for upsert in self._upserts_for(obj):
            upsert(obj)

    def delete(self, obj: Object) -> None:
        """Remove an object, if it is there."""
        match obj:
            case Pod():
                self._remove_pod(self._uid(obj))
            case Node():
                self.nodes.delete_node(obj.name)
            case Namespace():
                self.nodes.set_namespace_labels(obj.name, None)
            case PodDisruptionBudget():
                self.budgets.pop(obj.key, None)
                self.nodes.epochs.bump(Epoch.BUDGETS)
        for ledger in self._ledgers_for(obj):
            ledger.delete(obj)
        if self._affects_amounts(type(obj)):
            self._set_additional_amounts(obj)

    def node_given_amounts(self, obj: Object) -> Node | None:
        """Return the node to which an object gives additional amounts, listing them, or None."""
        if not self._may_give_amounts(type(obj)):
            return None
        row = self.nodes.row_of.get(obj.name)
        node = None if row is None else self.nodes.nodes[row]
        return None if node is None else self.nodes.completed(node)

    def nominate(self, waiting: PodInfo) -> None:
        """Nominate a pod to the node that its status names, or clear its nomination."""
        node = waiting.pod.status.nominated_node_name
        if node or self.nominations:
            self.nominations.set(waiting, node)

    def assume(self, pod: PodInfo, row: int) -> None:
        """Put a pod on a row before it is bound, and clear its nomination."""
        if self.nominations:
            self.nominations.clear(pod.uid)
            self.evictions.end(pod.uid)
        self.nodes.assume(pod, row)

    def forget(self, uid: str) -> None:
        """Remove an assumed pod."""
        self.nodes.forget(uid)

    def fork(self) -> World:
        """Return an independent copy, for simulations and dry runs; its caches are empty.

        Everything that changes must be copied: both worlds once shared the annotations that
        ``recorded`` had read first.
        """
        nodes = self.nodes.fork()
        copy = World(
            nodes,
            reservations=self.reservations.fork(nodes),
            policies=self.policies.fork(nodes),
            devices=self.devices.fork(nodes),
            volumes=self.volumes.fork(nodes),
            classic=self.classic.fork(nodes),
            numa=self.numa.fork(nodes),
            device_share=self.device_share.fork(nodes),
            selectors=self.selectors.fork(nodes),
            ignores_resource=self.ignores_resource,
        )
        copy.budgets = dict(self.budgets)
        copy.nominations = self.nominations.fork(nodes)
        copy.evictions = self.evictions.fork(nodes)
        copy.waiting = self.waiting.fork()
        copy.recorded.copy_from(self.recorded)
        return copy

    def _ledgers_for(self, obj: Object) -> tuple[Ledger, ...]:
        kind = type(obj)
        ledgers = self._ledgers_of.get(kind)
        if ledgers is None:
            ledgers = tuple(ledger for ledger in self.ledgers if issubclass(kind, ledger.takes))
            self._ledgers_of[kind] = ledgers
        return ledgers

    def _upserts_for(self, obj: Object) -> tuple[Callable[[Any], object], ...]:
        kind = type(obj)
        cached_upserts = self._upserts_of.get(kind)
        if cached_upserts is None:
            own: dict[type[Object], Callable[[Any], object]] = {
                Pod: self._upsert_pod,
                Node: self.nodes.upsert_node,
                Namespace: self._upsert_namespace,
                PodDisruptionBudget: self._upsert_budget,
            }
            upserts = [upsert for type_, upsert in own.items() if issubclass(kind, type_)]
            upserts += [ledger.upsert for ledger in self._ledgers_for(obj)]
            if issubclass(kind, Reservation):
                upserts.append(self._upsert_pods_naming)
            if self._affects_amounts(kind):
                upserts.append(self._set_additional_amounts)
            cached_upserts = self._upserts_of[kind] = tuple(upserts)
        return cached_upserts

    def _upsert_namespace(self, namespace: Namespace) -> None:
        self.nodes.set_namespace_labels(namespace.name, namespace.metadata.labels)

    def _upsert_budget(self, budget: PodDisruptionBudget) -> None:
        self.budgets[budget.key] = budget
        self.nodes.epochs.bump(Epoch.BUDGETS)
        if (selector := budget.spec.selector) is not None:
            keys = (term.key for term in selector.match_expressions)
            self.nodes.add_selector_keys(frozenset((*selector.match_labels, *keys)))

    def _may_give_amounts(self, kind: type[Object]) -> bool:
        may_give = self._gives_amounts.get(kind)
        if may_give is None:
            takes = (ledger.takes for ledger in self._amount_ledgers)
            may_give = self._gives_amounts[kind] = any(issubclass(kind, types) for types in takes)
        return may_give

    def _affects_amounts(self, kind: type[Object]) -> bool:
        """Return whether additional amounts of nodes depend on objects of a type."""
        return issubclass(kind, Node) or self._may_give_amounts(kind)

    def _set_additional_amounts(self, obj: Object) -> None:
        """Set the amounts of a node after it, or an object that gives it amounts, changed."""
        amounts: dict[str, int] = {}
        for ledger in self._amount_ledgers:
            amounts.update(ledger.additional_amounts(obj.name))
        self.nodes.set_additional_amounts(obj.name, amounts)

    def _upsert_pod(self, pod: Pod) -> None:
        uid, node = self._uid(pod), pod.spec.node_name
        if pod.finished:
            self._remove_pod(uid)
        elif node:
            # Before any ledger reads the annotations: a user who may patch a pod of 1m could give
            # it all CPUs of its node (decision 0022).
            believed = self.recorded.believed(pod, uid)
            pod_info = self.pod_info(believed)
            self.nominations.clear(uid)
            self.evictions.end(uid)
            self.nodes.add_pod(pod_info, node)
            acts_as = operating_reservation(believed, uid)
            if acts_as is not None or uid in self.reservations.by_uid:
                self._set_acting_pod(pod_info, acts_as)
                return
            for ledger in self._pod_handlers:
                ledger.pod_set(pod_info, node)
        else:
            # Also for pods of other schedulers: what is freed for a nominated pod is left to it.
            self.nominate(self.pod_info(pod))

    def _set_acting_pod(self, pod_info: PodInfo, reservation: Reservation | None) -> None:
        """Store a pod that acts as a reservation; ``reservation`` is None if it no longer does.

        The ledgers of identified resources then store it as a reservation, not as a pod. It stays
        an ordinary pod in the node table: a label must not protect it from preemption.
        """
        uid, node = pod_info.uid, pod_info.pod.spec.node_name
        known = self.reservations.by_uid.get(uid)
        if reservation is None and known is not None:
            self._delete_acting_pod(known.reservation)
        for ledger in self._pod_handlers:
            if reservation is None or not isinstance(ledger, IdentifiesResources):
                ledger.pod_set(pod_info, node)
            elif known is None:
                ledger.pod_removed(uid)
        if reservation is not None:
            for of_reservations in self._ledgers_for(reservation):
                of_reservations.upsert(reservation)
            self._upsert_pods_naming(reservation)

    def _upsert_pods_naming(self, reservation: Reservation) -> None:
        """Read again the pods whose annotation says that they were allocated from a reservation.

        The annotation was not trusted while the reservation was unknown.
        """
        for pod in self.recorded.waiting_for(reservation.uid):
            self._upsert_pod(pod)

    def _find_reservation(self, uid: str) -> Source | None:
        info = self.reservations.by_uid.get(uid)
        return None if info is None else Source(info.reservation, info.group.owned_by)

    def _possible(self, pod: Pod, key: str, text: str) -> str:
        """Return the part of an annotation about CPUs or devices that the pod's requests allow."""
        names = self.nodes.resources
        request = {names[id_]: amount for id_, amount in self.pod_info(pod).request}
        if key == RESOURCE_STATUS:
            return possible_status(text, request)
        return possible_devices(text, pod, request)

    def _report_dispute(self, uid: str, key: str) -> None:
        if (placed := self.nodes.pod(uid)) is not None:
            self.recorded.report(placed[0].pod, uid, key, DISPUTED)

    def _delete_acting_pod(self, reservation: Reservation) -> None:
        for ledger in self._ledgers_for(reservation):
            ledger.delete(reservation)

    def _remove_pod(self, uid: str) -> None:
        self.nominations.clear(uid)
        self.evictions.end(uid)
        self.nodes.remove_pod(uid)
        self.recorded.forget(uid)
        if uid in self.reservations.by_uid:
            self._delete_acting_pod(self.reservations.by_uid[uid].reservation)
        for ledger in self._pod_handlers:
            ledger.pod_removed(uid)

    @staticmethod
    def _uid(pod: Pod) -> str:
        return pod.uid or pod.key
