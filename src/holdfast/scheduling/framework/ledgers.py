"""The interfaces of the world's ledgers, and of the auditor of its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from holdfast.api.meta import Object
from holdfast.scheduling.framework.values import Placement
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo


class Ledger(Protocol):
    """A store of what objects of some kinds use or reserve."""

    @property
    def takes(self) -> tuple[type[Object], ...]:
        """The types of the objects that it stores."""
        ...

    def upsert(self, obj: Any) -> None:
        """Add or update an object."""
        ...

    def delete(self, obj: Any) -> None:
        """Remove an object, if it is there."""
        ...

    def fork(self, nodes: NodeTable) -> Any:
        """Return an independent copy over a forked node table."""
        ...


@runtime_checkable
class PodEventHandler(Protocol):
    """A ledger that also follows the pods on nodes; called after the node table is updated."""

    def pod_set(self, pod_info: PodInfo, node: str) -> None:
        """Handle a bound pod that is new or changed; the ledger may have it as assumed."""
        ...

    def pod_removed(self, uid: str) -> None:
        """Handle the removal of a bound or assumed pod; the ledger may not have it."""
        ...


@runtime_checkable
class AdditionalAmounts(Protocol):
    """A ledger of objects that give a node amounts in addition to those that the Node lists.

    Each of its objects has the name of its node.
    """

    def additional_amounts(self, node: str) -> Mapping[str, int]:
        """Return amounts by resource name, cpu in millicores; the Node's take precedence."""
        ...


@runtime_checkable
class IdentifiesResources(Protocol):
    """A ledger of resources with identities, such as the CPUs of a bound pod or shared devices."""

    def identified_resources(self, pod: PodInfo, row: int) -> frozenset[int]:
        """Return the ids of the resources that the pod gets as specific units on a row."""
        ...


class AttemptAuditor(Protocol):
    """Compares the world before and after every attempt, under ``--check-invariants``."""

    def note_faults(self, faults: Iterable[str]) -> None:
        """Store what is wrong with a decision; ``faults`` are computed only if they are read."""
        ...

    def before_attempt(self) -> None:
        """Store the state of the ledgers."""
        ...

    def after_attempt(self, placement: Placement | None) -> None:
        """Compare the ledgers with the state before; ``placement`` is None if no node was found."""
        ...

    def raise_faults(self) -> None:
        """Raise an AssertionError if there are faults."""
        ...
