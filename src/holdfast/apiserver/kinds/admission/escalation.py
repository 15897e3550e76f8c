"""Refuse to grant, by a role or a binding, more than the user who writes it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.api.decode import JsonMapping
from holdfast.apiserver.access.rbac import GROUP, PolicyRule, role_key
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.wire.request_info import RequestInfo
from holdfast.errors import Details, Forbidden, NotFound

_GC_FIELDS = frozenset(
    {"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"}
)
_EVERYTHING: tuple[PolicyRule, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)


def check_role_grants(op: Operation, new: JsonMapping, old: JsonMapping | None) -> None:
    """Refuse a role with rules that the writer lacks.

    The verb ``escalate`` allows it. A write that leaves the rules alone, or changes nothing but
    what garbage collection needs, is not checked.
    """
    written = str(new["metadata"].get("name"))
    if _is_checked(op, new, old) and (old is None or _granted(new) != _granted(old)):
        _check_rules(op, written, _lifting(op, "escalate", written), _granted(new))


def check_binding_grants(op: Operation, new: JsonMapping, old: JsonMapping | None) -> None:
    """Refuse a binding to a role with rules that the writer lacks.

    A binding to a role that does not exist is refused too: the role may be given any rules later.
    The verb ``bind`` on the role bound allows all of it. A write that changes nothing but what
    garbage collection needs is not checked.
    """
    if _is_checked(op, new, old):
        _check_binding(op, str(new["metadata"].get("name")), new.get("roleRef") or {})


def _is_checked(op: Operation, new: JsonMapping, old: JsonMapping | None) -> bool:
    if op.user.is_master:
        return False
    return old is None or _without_gc_fields(new) != _without_gc_fields(old)


def _check_binding(op: Operation, written: str, ref: JsonMapping) -> None:
    plural = "clusterroles" if ref.get("kind") == "ClusterRole" else "roles"
    name = str(ref.get("name"))
    lifting = _lifting(op, "bind", name, plural)
    authorizer = op.context.authorizer
    key = role_key(ref, op.request_info.namespace)
    rules = authorizer.roles().rules.get(key) if key else None
    if rules is not None:
        _check_rules(op, written, lifting, rules)
    elif not authorizer.allows(op.user, lifting):
        # Upstream, too, names the role and calls it by the binding's resource.
        resource = op.descriptor.resource.plural
        details = Details(name=name, group=GROUP, kind=resource)
        raise NotFound(f'{resource}.{GROUP} "{name}" not found', details)


def _without_gc_fields(obj: JsonMapping) -> JsonMapping:
    """Copy an object without the metadata that garbage collection and the server write."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _GC_FIELDS}
    return {**obj, "metadata": meta}


def _lifting(op: Operation, verb: str, name: str, plural: str = "") -> RequestInfo:
    """Name the call that, if allowed, makes all granting right."""
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
    """List what a role may come to grant: one that aggregates others, anything."""
    return (*(role.get("rules") or ()), *(_EVERYTHING if role.get("aggregationRule") else ()))


def _check_rules(
    op: Operation, written: str, lifting: RequestInfo, rules: Iterable[PolicyRule]
) -> None:
    authorizer = op.context.authorizer
    if authorizer.allows(op.user, lifting):
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
            f'{op.descriptor.resource.plural}.{GROUP} "{written}" is forbidden: '
            f'user "{op.user.name}" '
            f"(groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n"
            + "\n".join(map(_shown, missing)),
            op.details,
        )


def requests_allowed_by(rule: PolicyRule, namespace: str) -> Iterator[RequestInfo]:
    """List the smallest calls a rule allows; wildcards stand for themselves.

    >>> rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}
    >>> [(r.verb, r.plural, r.subresource) for r in requests_allowed_by(rule, "")]
    [('get', 'pods', 'log')]
    """
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield RequestInfo(verb, path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                plural, _, part = resource.partition("/")
                for name in rule.get("resourceNames") or ("",):
                    yield RequestInfo(verb, "", group, "", namespace, plural, name, part)


def _shown(rule: PolicyRule) -> str:
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
