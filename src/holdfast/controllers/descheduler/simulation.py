"""Simulate the cluster as it will be after the planned moves.

Targets are predicted by the scheduler's own code. Pods that migrate already count where their
reservation is, or where it will probably be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from holdfast.api.labels import Selector
from holdfast.api.meta import Object, Requirement, controller_of
from holdfast.api.node import Node
from holdfast.api.node_selection import NAME_FIELD
from holdfast.api.pod import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod
from holdfast.api.pod_migration_job import EVICT_DIRECTLY, PodMigrationJob
from holdfast.api.workloads import ReplicaSet, StatefulSet
from holdfast.runtime.settings import MigrationSettings
from holdfast.scheduling.engine.cached_scores import best_of
from holdfast.scheduling.engine.decision import feasible, scored_rows
from holdfast.scheduling.engine.profile import Profile, build_profile
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import REGISTRY
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.migration.limits import MigratingPods, Workload, make_workload
from holdfast.state.migration.pod_selection import MigrationCandidate, find_obstacle

PREDICTING = frozenset((
    "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "PodTopologySpread", "InterPodAffinity", "NodeResourcesBalancedAllocation", "ImageLocality",
    "NodeNUMAResource", "DeviceShare", "DefaultBinder",
))  # fmt: skip
"""The plugins that predict a target; they need neither volumes nor claims.

Reservation is not among them, so no reservation matches: reserved resources count as used, as they
do for the reservation that a migration makes.
"""
STEP = 64
"""Objects that are processed between two pauses."""


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """A copy of the cluster at one moment."""

    others: Sequence[Object] = ()
    """All other objects that decide where pods fit, in this order: namespaces, nodes and so on."""
    replicasets: Sequence[ReplicaSet] = ()
    statefulsets: Sequence[StatefulSet] = ()
    pods: Sequence[Pod] = ()
    jobs: Sequence[PodMigrationJob] = ()
    local_storage: frozenset[str] = field(default_factory=frozenset)
    """The uids of pods that are known to have local storage."""


class SimulatedWorkloads:
    """The workloads of pods."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._replicas = {each.uid: each.spec.replicas for each in objects.replicasets}
        self._replicas |= {each.uid: each.spec.replicas for each in objects.statefulsets}
        self._pods: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in objects.pods:
            if (owner := controller_of(pod)) is not None:
                self._pods[owner.uid].append(pod)

    def of(self, pod: Pod) -> Workload | None:
        """Return the workload of a pod, None if no controller has created it."""
        owner = controller_of(pod)
        if owner is None:
            return None
        pods = tuple(self._pods[owner.uid])
        return make_workload(owner.uid, self._replicas.get(owner.uid), pods)


def predicting_profiles(profiles: Iterable[Profile] = ()) -> dict[str, Profile]:
    """Return the profiles that predict the targets of pods, by scheduler name; "" is for others."""
    enabled = [(entry.name, 0) for entry in REGISTRY if entry.name in PREDICTING]
    by_name = {"": build_profile("prediction", REGISTRY, enabled=enabled)}
    for profile in profiles:
        plugins = tuple(p for p in profile.plugins if p.name in PREDICTING)
        points = {
            point: tuple(p for p in listed if p.name in PREDICTING)
            for point, listed in profile.plugins_by_point.items()
        }
        by_name[profile.name] = Profile(profile.name, plugins, profile.weights, points)
    return by_name


class Simulation:
    """A world in which planned moves have happened."""

    def __init__(
        self,
        objects: ClusterObjects,
        settings: MigrationSettings,
        profiles: Mapping[str, Profile],
        now: float,
    ) -> None:
        self.world = World()
        self.now = now
        self._objects = objects
        self._settings = settings
        self._profiles = profiles
        self._workloads = SimulatedWorkloads(objects)
        self._migrating = MigratingPods(settings)
        self.moved: set[str] = set()
        """The uids of pods that migrate, or are planned to."""
        self._had_job: set[str] = set()

    @property
    def nodes(self) -> NodeTable:
        """The node table."""
        return self.world.nodes

    def load(self) -> Iterator[None]:
        """Build the world, with pauses."""
        objects = self._objects
        every = (*objects.others, *objects.replicasets, *objects.statefulsets, *objects.pods)
        for count, obj in enumerate(every):
            self.world.upsert(obj)
            if count % STEP == 0:
                yield
        pods = {pod.key: pod for pod in objects.pods}
        for job in sorted(objects.jobs, key=lambda job: job.name):
            ref = job.spec.pod_ref
            pod = pods.get(f"{ref.namespace}/{ref.name}") if ref is not None else None
            if pod is not None and ref is not None and ref.uid in ("", pod.uid):
                self._had_job.add(pod.uid)
                if not job.finished:
                    self._count_migrating(pod, job)
            yield

    def _count_migrating(self, pod: Pod, job: PodMigrationJob) -> None:
        self._migrating.add(pod)
        self.moved.add(pod.uid)
        placed = self.nodes.pod(pod.uid)
        if placed is None:
            return
        targets = [] if job.status.node_name else self.targets(*placed)
        self._put(placed[0], targets[0] if targets else None)

    def rows(self, *selectors: Selector) -> list[int]:
        """Return the rows whose labels match all selectors, in the order of node names."""
        nodes = self.nodes
        rows = []
        for name in sorted(nodes.row_of):
            row = nodes.row_of[name]
            labels = self.node(row).metadata.labels
            if all(selector.matches(labels) for selector in selectors):
                rows.append(row)
        return rows

    def node(self, row: int) -> Node:
        """Return the node of a row."""
        node = self.nodes.nodes[row]
        assert node is not None, row
        return node

    def pods_on(self, row: int) -> list[PodInfo]:
        """Return the pods of a row that are not migrating, by name."""
        pods = [pod for uid, pod in self.nodes.pods_on(row).items() if uid not in self.moved]
        return sorted(pods, key=lambda pod: pod.key)

    def view(self, pod: PodInfo) -> View:
        """Return the world as the reservation for a pod sees it."""
        return self._profiles[""].view(pod, self.world, self.now)

    def find_obstacle(self, pod: Pod) -> str:
        """Return why a pod may not migrate now, "" if it may."""
        if pod.uid in self._had_job:
            return "it has a PodMigrationJob"
        if (pod.spec.scheduler_name or "default-scheduler") not in self._settings.scheduler_names:
            return f"scheduler {pod.spec.scheduler_name} is not one of schedulerNames"
        workload = self._workloads.of(pod)
        local = pod.uid in self._objects.local_storage
        if obstacle := find_obstacle(MigrationCandidate(pod, workload, local), self._settings):
            return obstacle
        limit = self._migrating.find_limit(pod, workload)
        return limit.message if limit is not None else ""

    def targets(self, pod: PodInfo, row: int) -> list[int]:
        """Return the rows among which the scheduler would choose, [] if the pod would not move.

        The pod still runs when a reservation is made for it; with EvictDirectly it is evicted
        first.
        """
        if self._settings.default_mode != EVICT_DIRECTLY:
            return self._best_rows(without_node(pod.pod, self.node(row).name))
        self.world.delete(pod.pod)
        try:
            rows = self._best_rows(pod.pod)
        finally:
            self.world.upsert(pod.pod)
        return [] if row in rows else rows

    def _best_rows(self, pod: Pod) -> list[int]:
        pod_info = self.world.pod_info(pod)
        profile = self._profiles.get(pod_info.scheduler_name) or self._profiles[""]
        filter_result = feasible(profile, profile.view(pod_info, self.world, self.now))
        if isinstance(filter_result, Rejection):
            return []
        rows, totals = scored_rows(profile, filter_result)
        if isinstance(rows, slice):
            rows = np.arange(rows.stop, dtype=np.intp)
        best: list[int] = rows[best_of(totals)].tolist()
        return best

    def move(self, pod: PodInfo, row: int, target: int | None) -> None:
        """Plan a move; without a target the pod only leaves."""
        self._migrating.add(pod.pod)
        self.moved.add(pod.uid)
        self._put(pod, target)

    def _put(self, pod: PodInfo, target: int | None) -> None:
        self.world.delete(pod.pod)
        if target is not None:
            self.world.assume(pod, target)


def without_node(pod: Pod, node: str) -> Pod:
    """Return a pod as its reservation is scheduled: on any node but this one.

    That also decides which nodes count for its topology spread constraints.
    """
    field = Requirement(key=NAME_FIELD, operator="NotIn", values=(node,))
    affinity = pod.spec.affinity or Affinity()
    of_nodes = affinity.node_affinity or NodeAffinity()
    required = of_nodes.required_during_scheduling_ignored_during_execution or NodeSelector()
    terms = required.node_selector_terms or (NodeSelectorTerm(),)
    terms = tuple(replace(term, match_fields=(*term.match_fields, field)) for term in terms)
    required = replace(required, node_selector_terms=terms)
    of_nodes = replace(of_nodes, required_during_scheduling_ignored_during_execution=required)
    affinity = replace(affinity, node_affinity=of_nodes)
    return replace(pod, spec=replace(pod.spec, affinity=affinity))
