"""Read resource policies from a cluster, and compile them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.resource_policy import ResourcePolicy
from holdfast.capacity.policies import Policy, compile_policy
from holdfast.capacity.policy_usage import PolicyUsage, conflicts, usage_of
from holdfast.errors import HoldfastError, Refused, aggregate_message


@dataclass(frozen=True, slots=True)
class Compiled:
    """A policy with its pods, or the error for which it selects none."""

    object: ResourcePolicy
    usage: PolicyUsage | None
    error: str
    conflicts: dict[str, list[Pod]]
    """Pods that other policies select too, by the name of the other policy."""


def compile_all(objects: Iterable[Object]) -> list[Compiled]:
    """Compile all resource policies among the objects, by namespace and name."""
    listed = list(objects)
    nodes = [obj for obj in listed if isinstance(obj, Node)]
    pods: defaultdict[str, list[Pod]] = defaultdict(list)
    for obj in listed:
        if isinstance(obj, Pod):
            pods[obj.namespace].append(obj)
    found = sorted(
        (obj for obj in listed if isinstance(obj, ResourcePolicy)),
        key=lambda policy: (policy.namespace, policy.name),
    )
    compiled = {policy.key: _compiled(policy) for policy in found}
    answer = []
    for obj in found:
        policy, error = compiled[obj.key]
        if policy is None:
            answer.append(Compiled(obj, None, error, {}))
        else:
            there = pods[obj.namespace]
            others = [p for p, _ in compiled.values() if p and p.object.namespace == obj.namespace]
            usage = usage_of(policy, nodes, there)
            answer.append(Compiled(obj, usage, "", conflicts(policy, others, there)))
    return answer


def split_name(name: str, namespace: str) -> tuple[str, str]:
    """Read NAME or NAMESPACE/NAME as a namespace and a name."""
    left, slash, right = name.partition("/")
    return (left, right) if slash else (namespace, name)


def find(found: Sequence[Compiled], namespace: str, name: str, url: str = "") -> Compiled:
    """Return one policy; raise Refused with the policies that there are if it does not exist."""
    for compiled in found:
        if (compiled.object.namespace, compiled.object.name) == (namespace, name):
            return compiled
    where = f" at {url}" if url else ""
    keys = [compiled.object.key for compiled in found]
    there = f"there are {', '.join(keys[:8])}" if keys else "there are no resource policies"
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    raise Refused(
        f'there is no resource policy "{name}" in namespace "{namespace}"{where}: {there}{more}; '
        "-n names the namespace"
    )


def require_usage(found: Compiled) -> PolicyUsage:
    """Return the usage of a policy; raise Refused if it cannot be compiled."""
    if found.usage is None:
        raise Refused(
            f"resource policy {found.object.key} has no effect, because it is invalid: "
            f"{found.error}"
        )
    return found.usage


def _compiled(policy: ResourcePolicy) -> tuple[Policy | None, str]:
    try:
        return compile_policy(policy), ""
    except HoldfastError as error:
        return None, aggregate_message(error.details.causes or [error])
