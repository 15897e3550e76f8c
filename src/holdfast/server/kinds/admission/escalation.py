"""Privilege escalation checks: a user may grant only permissions that it has itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.api.decode import JsonMapping
from holdfast.runtime.errors import Details, Forbidden, NotFound
from holdfast.server.access.rbac import GROUP, PolicyRule, role_key
from holdfast.server.operation import Operation
from holdfast.server.wire.request_info import RequestInfo

_GC_FIELDS = frozenset(
    {"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"}
)
_EVERYTHING: tuple[PolicyRule, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)


def check_role_grants(op: Operation, new: JsonMapping, old: JsonMapping | None) -> None:
    """Raise Forbidden for a role with rules that the user does not have.

    The verb ``escalate`` allows it. A write that changes no rules, or only fields for garbage
    collection, is not checked.
    """
    name_written = str(new["metadata"].get("name"))
    if _is_checked(op, new, old) and (old is None or _granted(new) != _granted(old)):
        _check_rules(op, name_written, _override(op, "escalate", name_written), _granted(new))


def check_binding_grants(op: Operation, new: JsonMapping, old: JsonMapping | None) -> None:
    """Raise Forbidden for a binding to a role with rules that the user does not have.

    A binding to a missing role is rejected too, because the role may get any rules later. The verb
    ``bind`` on the role allows both. A write that changes only fields for garbage collection is
    not checked.
    """
    if _is_checked(op, new, old):
        _check_binding(op, str(new["metadata"].get("name")), new.get("roleRef") or {})


def _is_checked(op: Operation, new: JsonMapping, old: JsonMapping | None) -> bool:
    if op.user.is_master:
        return False
    return old is None or _without_gc_fields(new) != _without_gc_fields(old)


def _check_binding(op: Operation, name_written: str, ref: JsonMapping) -> None:
    plural = "clusterroles" if ref.get("kind") == "ClusterRole" else "roles"
    name = str(ref.get("name"))
    override = _override(op, "bind", name, plural)
    authorizer = op.context.authorizer
    key = role_key(ref, op.request_info.namespace)
    rules = authorizer.roles().rules.get(key) if key else None
    if rules is not None:
        _check_rules(op, name_written, override, rules)
    elif not authorizer.allows(op.user, override):
        # As upstream: the name of the role with the resource of the binding.
        resource = op.descriptor.resource.plural
        details = Details(name=name, group=GROUP, kind=resource)
        raise NotFound(f'{resource}.{GROUP} "{name}" not found', details)


def _without_gc_fields(obj: JsonMapping) -> JsonMapping:
    """Return a copy without the metadata that garbage collection and the server write."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _GC_FIELDS}
    return {**obj, "metadata": meta}


def _override(op: Operation, verb: str, name: str, plural: str = "") -> RequestInfo:
    """Return the request that a user must be allowed to make to skip the check."""
    return RequestInfo(
        verb,
        "",
        GROUP,
        "v1",
        op.request_info.namespace,
        plural or op.descriptor.resource.plural,
        name,
    )


def _granted(role: JsonMapping) -> tuple[PolicyRule, ...]:
    """Return the rules that a role may grant; for an aggregated role, all permissions."""
    return (*(role.get("rules") or ()), *(_EVERYTHING if role.get("aggregationRule") else ()))


def _check_rules(
    op: Operation, name_written: str, override: RequestInfo, rules: Iterable[PolicyRule]
) -> None:
    authorizer = op.context.authorizer
    if authorizer.allows(op.user, override):
        return
    space = op.request_info.namespace
    missing = [
        rule
        for rule in rules
        if not all(
            authorizer.allows(op.user, request_info)
            for request_info in requests_allowed_by(rule, space)
        )
    ]
    if missing:
        groups = ",".join(map(_quoted, op.user.groups))
        raise Forbidden(
            f'{op.descriptor.resource.plural}.{GROUP} "{name_written}" is forbidden: '
            f'user "{op.user.name}" '
            f"(groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n"
            + "\n".join(map(_rule_text, missing)),
            op.details,
        )


def requests_allowed_by(rule: PolicyRule, namespace: str) -> Iterator[RequestInfo]:
    """Yield the single requests that a rule allows; wildcards are kept.

    >>> rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}
    >>> [(r.verb, r.plural, r.subresource) for r in requests_allowed_by(rule, "")]
    [('get', 'pods', 'log')]
    """
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield RequestInfo(verb, path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                plural, _, subresource = resource.partition("/")
                for name in rule.get("resourceNames") or ("",):
                    yield RequestInfo(verb, "", group, "", namespace, plural, name, subresource)


def _rule_text(rule: PolicyRule) -> str:
    parts = (
        ("APIGroups", "apiGroups"), ("Resources", "resources"), ("ResourceNames", "resourceNames"),
        ("NonResourceURLs", "nonResourceURLs"), ("Verbs", "verbs"),
    )  # fmt: skip
    listed = (
        f"{shown}:[{', '.join(map(_quoted, rule[key]))}]" for shown, key in parts if rule.get(key)
    )
    return "{" + ", ".join(listed) + "}"


def _quoted(value: str) -> str:
    return f'"{value}"'
