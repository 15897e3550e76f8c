"""Versions of what is not bound to rows: labels, counters, reservations, devices and so on."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Epoch(StrEnum):
    """An input of cached results other than the rows of nodes; its changes make them outdated.

    A plugin names those that its results depend on in ``Traits.epochs``.
    """

    LAYOUT = "layout"
    """The length of all arrays of rows; it also moves when objects that plans hold are dropped.
    Every plan depends on it."""
    NODES = "nodes"
    """The set of nodes."""
    IMAGES = "images"
    """The set of images, and the number of nodes that have them."""
    LABELS = "labels"
    """Which label keys of pods are visible, that is, named by some selector."""
    POD_LABELS = "pod_labels"
    """The labels of a pod on a node, where its row has not changed otherwise."""
    COUNTERS = "counters"
    """Counters of pods were dropped to make room for others."""
    EXISTING_TERMS = "existing_terms"
    """Which affinity terms the pods on nodes have."""
    NAMESPACES = "namespaces"
    """The labels of namespaces."""
    SELECTORS = "selectors"
    """The selectors of workloads and Services."""
    BUDGETS = "budgets"
    """PodDisruptionBudgets."""
    VOLUMES = "volumes"
    """Volumes, their claims and classes, CSI drivers, and what nodes report of them."""
    MOUNTS = "mounts"
    """Which claims for volumes the pods on nodes use."""
    RESERVATIONS = "reservations"
    """Reservations, and who owns them."""
    POLICIES = "policies"
    """ResourcePolicies."""
    CLASSES = "classes"
    """DeviceClasses, and so which extended resources they serve."""
    DEVICES = "devices"
    """Devices that do not belong to one node. A change of others is a change of their row."""
    AWAITED = "awaited"
    """A claim was created that pods had named before."""
    SHARED_DEVICES = "shared_devices"
    """Whether there are devices shared by percent."""
    NUMA = "numa"
    """Whether CPUs or NUMA nodes matter on any node."""


class Epochs:
    """A version counter for each epoch; ``stamp`` moves when any of them moves.

    Compare ``stamp`` first: single epochs need to be compared only if it moved.
    """

    __slots__ = ("_of", "stamp")

    def __init__(self) -> None:
        self._of: dict[str, int] = dict.fromkeys(Epoch, 0)
        self.stamp = 0

    def bump(self, epoch: Epoch) -> None:
        """Invalidate everything that depends on an epoch."""
        self._of[epoch] += 1
        self.stamp += 1

    def __getitem__(self, epoch: Epoch) -> int:
        return self._of[epoch]

    def of(self, epochs: Iterable[str]) -> tuple[int, ...]:
        """Return the versions of several epochs."""
        known = self._of
        return tuple([known[epoch] for epoch in epochs])

    def fork(self) -> Epochs:
        """Return an independent copy."""
        copy = Epochs()
        copy._of = dict(self._of)
        copy.stamp = self.stamp
        return copy
