"""Decide by stored roles and bindings who may do what; what no rule allows is denied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.apiserver.user import User
from holdfast.apiserver.wire.routing import RequestInfo

PolicyRule = Mapping[str, Any]
GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Grant:
    """Rules and where they hold; an empty namespace is everywhere."""

    namespace: str
    rules: tuple[PolicyRule, ...]


def rule_allows(rule: PolicyRule, call: RequestInfo) -> bool:
    """Tell whether one rule covers a call.

    >>> pods = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    >>> rule_allows(pods, RequestInfo("get", "", plural="pods"))
    True
    >>> rule_allows(pods, RequestInfo("get", "", plural="pods", subresource="log"))
    False
    """
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and call.verb not in verbs:
        return False
    if not call.is_resource:
        return any(_path_matches(url, call.path) for url in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    if "*" not in groups and call.group not in groups:
        return False
    if not any(_resource_matches(r, call) for r in rule.get("resources") or ()):
        return False
    names = rule.get("resourceNames") or ()
    return not names or call.name in names


def _path_matches(url: str, path: str) -> bool:
    if url.endswith("*"):
        return path.startswith(url[:-1])
    return url == path


def _resource_matches(pattern: str, call: RequestInfo) -> bool:
    if pattern == "*":
        return True
    if not call.subresource:
        return pattern == call.plural
    return pattern in (f"{call.plural}/{call.subresource}", f"*/{call.subresource}")


@dataclass(slots=True)
class RoleBook:
    """All grants, found by subject."""

    grants: dict[tuple[str, str], list[Grant]] = field(default_factory=dict)
    rules: Mapping[tuple[str, str], tuple[PolicyRule, ...]] = field(default_factory=dict)
    """By namespace (empty for cluster roles) and name of the role."""

    @classmethod
    def build(
        cls,
        roles: Iterable[Mapping[str, Any]],
        bindings: Iterable[Mapping[str, Any]],
    ) -> RoleBook:
        """Index roles of both kinds by the subjects of bindings of both kinds."""
        rules = _rules_by_role(roles)
        book = cls(rules=rules)
        for binding in bindings:
            space = binding.get("metadata", {}).get("namespace", "")
            key = role_key(binding.get("roleRef") or {}, space)
            grant = Grant(space, rules.get(key, ()) if key else ())
            for subject in binding.get("subjects") or ():
                book.grants.setdefault(_subject_key(subject, space), []).append(grant)
        return book

    def grants_of(self, user: User) -> Iterable[Grant]:
        """Every grant that reaches a user by name or by group."""
        yield from self.grants.get(("User", user.name), ())
        for group in user.groups:
            yield from self.grants.get(("Group", group), ())

    def allows(self, user: User, call: RequestInfo) -> bool:
        """Tell whether any rule lets the user do it."""
        return any(
            rule_allows(rule, call)
            for grant in self.grants_of(user)
            if not grant.namespace or grant.namespace == call.namespace
            for rule in grant.rules
        )


def role_key(ref: Mapping[str, Any], namespace: str) -> tuple[str, str] | None:
    """Find the role that a binding in a namespace (empty: none) refers to, in ``RoleBook.rules``.

    None if it refers to no role that can exist: a Role outside of namespaces.
    """
    if ref.get("kind") == "ClusterRole":
        return "", str(ref.get("name"))
    return (namespace, str(ref.get("name"))) if namespace else None


def _subject_key(subject: Mapping[str, Any], space: str) -> tuple[str, str]:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind == "ServiceAccount":
        return "User", f"system:serviceaccount:{subject.get('namespace') or space}:{name}"
    return kind, name


def _rules_by_role(
    roles: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str], tuple[PolicyRule, ...]]:
    known = list(roles)
    rules = {}
    for role in known:
        meta = role["metadata"]
        own = tuple(role.get("rules") or ())
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        for other in known if selectors else ():
            if not other["metadata"].get("namespace") and _selected(other, selectors):
                own += tuple(other.get("rules") or ())
        rules[(meta.get("namespace", ""), meta["name"])] = own
    return rules


def _selected(role: Mapping[str, Any], selectors: Iterable[Mapping[str, Any]]) -> bool:
    labels = role["metadata"].get("labels") or {}
    return any(
        all(labels.get(k) == v for k, v in (s.get("matchLabels") or {}).items())
        for s in selectors
        if s.get("matchLabels")
    )


def refusal(user: User, call: RequestInfo) -> str:
    """Say in upstream's words what a user may not do."""
    if not call.is_resource:
        return f'forbidden: User "{user.name}" cannot {call.verb} path "{call.path}"'
    resource = f"{call.plural}/{call.subresource}" if call.subresource else call.plural
    qualified = f"{call.plural}.{call.group}" if call.group else call.plural
    subject = f'{qualified} "{call.name}"' if call.name else qualified
    scope = f'in the namespace "{call.namespace}"' if call.namespace else "at the cluster scope"
    return (
        f'{subject} is forbidden: User "{user.name}" cannot {call.verb} resource "{resource}" '
        f'in API group "{call.group}" {scope}'
    )
