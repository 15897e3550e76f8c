"""Read resource policies from a cluster, and compile them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.resource_policy import ResourcePolicy
from holdfast.cli.table import join_names
from holdfast.runtime.errors import HoldfastError, Refused, aggregate_message
from holdfast.state.resource_policies.policies import Policy, compile_policy
from holdfast.state.resource_policies.policy_usage import PolicyUsage, usage_of


@dataclass(frozen=True, slots=True)
class Compiled:
    """A policy with its pods, or the error because of which it selects none."""

    object: ResourcePolicy
    usage: PolicyUsage | None
    error: str
    conflicts: dict[str, list[Pod]]
    """Pods that other policies select too, by the name of the other policy."""


def compile_all(objects: Iterable[Object], key: str = "") -> list[Compiled]:
    """Compile the resource policies among the objects, by namespace and name, or only one key."""
    listed = list(objects)
    nodes = [obj for obj in listed if isinstance(obj, Node)]
    compiled = [(policy, *_compiled(policy)) for policy in _policies(listed)]
    pods = [obj for obj in listed if isinstance(obj, Pod)]
    selection = _select([policy for _, policy, _ in compiled if policy is not None], pods)
    answer = []
    for obj, policy, error in compiled:
        if key not in ("", obj.key):
            continue
        if policy is None:
            answer.append(Compiled(obj, None, error, {}))
        else:
            mine = selection[obj.key]
            usage = usage_of(policy, nodes, [pod for pod, _ in mine])
            answer.append(Compiled(obj, usage, "", _conflicts(policy, mine)))
    return answer


def _select(
    policies: Sequence[Policy], pods: Iterable[Pod]
) -> dict[str, list[tuple[Pod, tuple[Policy, ...]]]]:
    """Return the pods of each policy by its key, each with all policies that select it.

    Pods of a namespace with equal labels for the selectors are matched once.
    """
    in_namespace: defaultdict[str, list[Policy]] = defaultdict(list)
    for policy in policies:
        in_namespace[policy.object.namespace].append(policy)
    keys = sorted({key for policy in policies for key in policy.selector.keys})
    known: dict[tuple[str | None, ...], tuple[Policy, ...]] = {}
    by_key: dict[str, list[tuple[Pod, tuple[Policy, ...]]]] = {p.key: [] for p in policies}
    for pod in pods:
        labels, namespace = pod.metadata.labels, pod.namespace
        if pod.finished or namespace not in in_namespace:
            continue
        values = (namespace, *[labels.get(key) for key in keys])
        if values not in known:
            selecting = [p for p in in_namespace[namespace] if p.selects(namespace, labels)]
            known[values] = tuple(selecting)
        for policy in known[values]:
            by_key[policy.key].append((pod, known[values]))
    return by_key


def _conflicts(
    policy: Policy, pods: Iterable[tuple[Pod, tuple[Policy, ...]]]
) -> dict[str, list[Pod]]:
    by_name: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod, selecting in pods:
        for other in selecting if len(selecting) > 1 else ():
            if other is not policy:
                by_name[other.object.name].append(pod)
    return dict(sorted(by_name.items()))


def compile_one(objects: Sequence[Object], namespace: str, name: str, url: str = "") -> Compiled:
    """Compile one policy; if it does not exist, raise Refused with the existing policies."""
    for compiled in compile_all(objects, f"{namespace}/{name}"):
        return compiled
    where = f" at {url}" if url else ""
    keys = [policy.key for policy in _policies(objects)]
    there = f"there are {join_names(keys)}; -n names the namespace" if keys else "there are none"
    raise Refused(
        f'there is no resource policy "{name}" in namespace "{namespace}"{where}: {there}'
    )


def split_name(name: str, namespace: str) -> tuple[str, str]:
    """Read NAME or NAMESPACE/NAME as a namespace and a name."""
    left, slash, right = name.partition("/")
    return (left, right) if slash else (namespace, name)


def require_usage(compiled: Compiled) -> PolicyUsage:
    """Return the usage of a policy; raise Refused if it cannot be compiled."""
    if compiled.usage is None:
        raise Refused(
            f"resource policy {compiled.object.key} has no effect, because it is invalid: "
            f"{compiled.error}"
        )
    return compiled.usage


def _policies(objects: Iterable[Object]) -> list[ResourcePolicy]:
    policies = [obj for obj in objects if isinstance(obj, ResourcePolicy)]
    return sorted(policies, key=lambda policy: (policy.namespace, policy.name))


def _compiled(policy: ResourcePolicy) -> tuple[Policy | None, str]:
    try:
        return compile_policy(policy), ""
    except HoldfastError as error:
        return None, aggregate_message(error.details.causes or [error])
