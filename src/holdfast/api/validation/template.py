"""Validation of pod templates, as far as scheduling reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.api import field_errors, names
from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.node_selection import compile_selector
from holdfast.api.pod import (
    Affinity,
    Container,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
)
from holdfast.api.quantity import AmountText, Quantity
from holdfast.api.resource_names import PODS, container_name_error
from holdfast.api.validation.names import name_errors
from holdfast.runtime.errors import BadRequest, Cause

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
OPERATORS = ("Equal", "Exists", "Lt", "Gt")
PROTOCOLS = ("SCTP", "TCP", "UDP")
MOST_PORTS = 65535
NO_PORT = f"must be between 1 and {MOST_PORTS}, inclusive"
NOT_NEGATIVE = "must be greater than or equal to 0"


def check_template(spec: PodSpec, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the requests and the scheduling fields of a pod.

    What only the kubelet reads, such as images, is not checked.
    """
    for part, containers in (("containers", spec.containers),
                             ("initContainers", spec.init_containers)):  # fmt: skip
        yield from _containers(containers, f"{path}.{part}")
    if spec.resources is not None:
        yield from _resources(spec.resources, f"{path}.resources")
    yield from check_amounts(spec.overhead, f"{path}.overhead")
    yield from _node_selector(spec.node_selector, f"{path}.nodeSelector")
    for i, toleration in enumerate(spec.tolerations):
        at = f"{path}.tolerations[{i}]"
        if toleration.operator and toleration.operator not in OPERATORS:
            yield field_errors.not_supported(f"{at}.operator", toleration.operator, OPERATORS)
        if toleration.effect and toleration.effect not in EFFECTS:
            yield field_errors.not_supported(f"{at}.effect", toleration.effect, EFFECTS)
    if spec.affinity is not None:
        yield from _affinity(spec.affinity, f"{path}.affinity")
    for i, constraint in enumerate(spec.topology_spread_constraints):
        at = f"{path}.topologySpreadConstraints[{i}].labelSelector"
        yield from check_selector(constraint.label_selector, at)


def check_amounts(amounts: Mapping[str, AmountText], path: str) -> Iterator[Cause]:
    """Yield names that no resource can have, and amounts that are malformed or negative.

    Pod slots can be reserved, although no container can request them.
    """
    for name, amount in amounts.items():
        at = f"{path}[{name}]"
        wrong_name = names.label_key(name) or ([] if name == PODS else [container_name_error(name)])
        yield from name_errors(at, name, filter(None, wrong_name))
        try:
            if Quantity.parse(amount).digits < 0:
                yield field_errors.invalid(at, amount, NOT_NEGATIVE)
        except BadRequest as wrong:
            yield field_errors.invalid(at, amount, wrong.message)


def check_resources(
    requests: Mapping[str, AmountText], limits: Mapping[str, AmountText], path: str
) -> Iterator[Cause]:
    """Yield malformed or negative amounts; if there are none, requests above their limit."""
    wrong = [
        *check_amounts(requests, f"{path}.requests"),
        *check_amounts(limits, f"{path}.limits"),
    ]
    yield from wrong
    for name in sorted(requests.keys() & limits.keys()) if not wrong else ():
        if Quantity.parse(requests[name]) > Quantity.parse(limits[name]):
            message = f"must be less than or equal to {name} limit of {limits[name]}"
            yield field_errors.invalid(f"{path}.requests", requests[name], message)


def check_selector(selector: LabelSelector | None, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a label selector."""
    try:
        from_selector(selector)
    except BadRequest as wrong:
        yield field_errors.invalid(path, selector, wrong.message)


def _containers(containers: Iterable[Container], path: str) -> Iterator[Cause]:
    for i, container in enumerate(containers):
        yield from _resources(container.resources, f"{path}[{i}].resources")
        for j, port in enumerate(container.ports):
            at = f"{path}[{i}].ports[{j}]"
            if not 0 <= port.host_port <= MOST_PORTS:
                yield field_errors.invalid(f"{at}.hostPort", port.host_port, NO_PORT)
            if port.protocol not in PROTOCOLS:
                yield field_errors.not_supported(f"{at}.protocol", port.protocol, PROTOCOLS)


def _node_selector(labels: Mapping[str, str], path: str) -> Iterator[Cause]:
    """Yield labels that no node can have."""
    for key, value in labels.items():
        for text, wrong in ((key, names.label_key(key)), (value, names.label_value(value))):
            if wrong:
                yield field_errors.invalid(path, text, "; ".join(wrong))


def _resources(resources: ResourceRequirements, path: str) -> Iterator[Cause]:
    return check_resources(resources.requests, resources.limits, path)


def _affinity(affinity: Affinity, path: str) -> Iterator[Cause]:
    nodes = affinity.node_affinity
    if nodes is not None and nodes.required_during_scheduling_ignored_during_execution is not None:
        at = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        required = nodes.required_during_scheduling_ignored_during_execution
        yield from compile_selector(required, at).mistakes
    for part, near in (("podAffinity", affinity.pod_affinity),
                       ("podAntiAffinity", affinity.pod_anti_affinity)):  # fmt: skip
        for term, at in _terms(near, f"{path}.{part}"):
            yield from check_selector(term.label_selector, f"{at}.labelSelector")
            yield from check_selector(term.namespace_selector, f"{at}.namespaceSelector")


def _terms(near: PodAffinity | None, path: str) -> Iterator[tuple[PodAffinityTerm, str]]:
    if near is None:
        return
    for i, term in enumerate(near.required_during_scheduling_ignored_during_execution):
        yield term, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{i}]"
    for i, wish in enumerate(near.preferred_during_scheduling_ignored_during_execution):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
        yield wish.pod_affinity_term, f"{at}.podAffinityTerm"
