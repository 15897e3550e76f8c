"""Write the labels, annotations and deletion cost of a pod that is placed in a unit.

Annotations and the deletion cost are sent with the Binding, which costs no request. Labels cannot
be sent with it, and they are dangerous, because a workload finds its pods by them. A policy that
wrote a label of a ReplicaSet's selector removed each pod from the ReplicaSet as soon as it was
placed, and 2 replicas became 162 pods, until the nodes were full.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.api.deletion_cost import DELETION_COST, MANAGED_DELETION_COST, POLICY_UID
from holdfast.api.scheme import PODS
from holdfast.scheduling.framework.plugin import MERGE_PATCH, ApiCall, ApiCalls, Placement
from holdfast.scheduling.plugins.resource_policy.pod_units import PodUnits


def annotate(units: PodUnits, placement: Placement) -> None:
    """Add the unit's annotations and the deletion cost to those that are sent with the Binding.

    Annotations of other plugins are not replaced: they say what the pod has allocated. The deletion
    cost is marked as the controller marks it, so that it is not written again; a cost that the pod
    has already was set by the user.
    """
    unit, sent = _best_unit(units, placement.row), placement.annotations
    for key, value in {} if unit is None else units.policy.units[unit].pod_annotations.items():
        sent.setdefault(key, value)
    if DELETION_COST not in placement.pod.pod.metadata.annotations and DELETION_COST not in sent:
        cost = str(units.policy.deletion_cost(units.usage.units.units_at(placement.row)))
        sent[DELETION_COST] = sent[MANAGED_DELETION_COST] = cost
        sent[POLICY_UID] = units.policy.object.uid


def labels_to_write(units: PodUnits, placement: Placement) -> Mapping[str, str]:
    """Return the labels of the unit that the pod lacks and its controller does not need."""
    unit = _best_unit(units, placement.row)
    wanted = {} if unit is None else units.policy.units[unit].pod_labels
    labels = placement.pod.labels
    return {
        key: value
        for key, value in wanted.items()
        if labels.get(key) != value and not _is_of_controller(units, placement, key)
    }


def write_labels(units: PodUnits, placement: Placement) -> ApiCalls:
    """Write the labels of the unit on the pod."""
    if labels := labels_to_write(units, placement):
        yield _patch(placement, labels)


def _is_of_controller(units: PodUnits, placement: Placement, key: str) -> bool:
    """Return whether the pod's controller selects by a label, or set it and no unit did.

    The controller would replace a pod with another value, again and again. The value alone is not
    sufficient: another unit may have written the same value that the controller selects by.
    """
    if key in units.selectors.of_controller(placement.pod).keys:
        return True
    value = placement.pod.labels.get(key)
    if value is None or not any(o.controller for o in placement.pod.pod.metadata.owner_references):
        return False
    return all(unit.pod_labels.get(key) != value for unit in units.policy.units)


def restore_labels(units: PodUnits, placement: Placement) -> ApiCalls:
    """Restore the labels that any unit of the policy may have written."""
    written = {key for unit in units.policy.units for key in unit.pod_labels}
    if written:
        yield _patch(placement, {key: placement.pod.labels.get(key) for key in sorted(written)})


def _best_unit(units: PodUnits, row: int) -> int | None:
    return units.policy.best_unit(units.usage.units.units_at(row))


def _patch(placement: Placement, labels: Mapping[str, str | None]) -> ApiCall:
    pod = placement.pod.pod
    body = {"metadata": {"uid": pod.metadata.uid, "labels": dict(labels)}}
    return ApiCall("patch", PODS.path(pod.namespace, pod.name), body, MERGE_PATCH)
