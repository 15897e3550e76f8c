"""The kinds of ``rbac.authorization.k8s.io``: roles and bindings."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api import field_errors, names
from holdfast.api.decode import JsonMapping
from holdfast.runtime.errors import Cause
from holdfast.server.access.rbac import GROUP
from holdfast.server.descriptor import AdmissionPlugin, KindDescriptor, untyped_resource
from holdfast.server.kinds.admission.escalation import check_binding_grants, check_role_grants
from holdfast.server.kinds.printers import access
from holdfast.server.tables.printer import NAME_CREATED
from holdfast.server.unimplemented_features import UnimplementedFeatures, UnimplementedField

_SUBJECTS = ("ServiceAccount", "User", "Group")


def check_role_binding(new: JsonMapping, old: JsonMapping | None) -> Iterable[Cause]:
    """Yield what is wrong with a RoleBinding."""
    yield from _check(new, ("Role", "ClusterRole"), namespaced=True)
    yield from _check_change(new, old)


def check_cluster_role_binding(new: JsonMapping, old: JsonMapping | None) -> Iterable[Cause]:
    """Yield what is wrong with a ClusterRoleBinding, which can refer to ClusterRoles only."""
    yield from _check(new, ("ClusterRole",), namespaced=False)
    yield from _check_change(new, old)


def _check_change(new: JsonMapping, old: JsonMapping | None) -> Iterable[Cause]:
    if old is not None and new.get("roleRef") != old.get("roleRef"):
        yield unchangeable_role(new)


def unchangeable_role(obj: JsonMapping) -> Cause:
    """Build the error for a changed roleRef; upstream prints the names of Go fields."""
    ref = obj.get("roleRef") or {}
    parts = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
    go_fields = {word: ref.get(part, "") for word, part in parts}
    return field_errors.invalid("roleRef", go_fields, "cannot change roleRef")


def _check(obj: JsonMapping, kinds: tuple[str, ...], *, namespaced: bool) -> Iterable[Cause]:
    ref = obj.get("roleRef") or {}
    group, kind, name = (ref.get(part) or "" for part in ("apiGroup", "kind", "name"))
    if group != GROUP:
        yield field_errors.not_supported("roleRef.apiGroup", group, (GROUP,))
    if kind not in kinds:
        yield field_errors.not_supported("roleRef.kind", kind, kinds)
    if not name:
        yield field_errors.required("roleRef.name")
    else:
        for message in names.path_segment(name):
            yield field_errors.invalid("roleRef.name", name, message)
    for index, subject in enumerate(obj.get("subjects") or ()):
        yield from _check_subject(f"subjects[{index}]", subject, namespaced=namespaced)


def _check_subject(at: str, subject: JsonMapping, *, namespaced: bool) -> Iterable[Cause]:
    group, kind, name = (subject.get(part) or "" for part in ("apiGroup", "kind", "name"))
    if not name:
        yield field_errors.required(f"{at}.name")
    if kind not in _SUBJECTS:
        yield field_errors.not_supported(f"{at}.kind", kind, _SUBJECTS)
    elif kind == "ServiceAccount":
        for message in names.dns_subdomain(name) if name else ():
            yield field_errors.invalid(f"{at}.name", name, message)
        if group:
            yield field_errors.not_supported(f"{at}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield field_errors.required(f"{at}.namespace")
    elif group != GROUP:
        yield field_errors.not_supported(f"{at}.apiGroup", group, (GROUP,))


_ROLE_GRANTS = (AdmissionPlugin(validate=check_role_grants),)
_BINDING_GRANTS = (AdmissionPlugin(validate=check_binding_grants),)
_NO_AGGREGATION = "ClusterRoles are not aggregated: bind each of them itself"

KINDS = (
    KindDescriptor(
        untyped_resource(GROUP, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        name_check=names.path_segment,
        checks=(check_cluster_role_binding,),
        admission_plugins=_BINDING_GRANTS,
        printer=access.ROLE_BINDING,
    ),
    KindDescriptor(
        untyped_resource(GROUP, "clusterroles", "ClusterRole", namespaced=False),
        name_check=names.path_segment,
        admission_plugins=_ROLE_GRANTS,
        unimplemented=UnimplementedFeatures(
            fields=(
                UnimplementedField(("aggregationRule",), _NO_AGGREGATION),
                UnimplementedField(("metadata", "labels", f"{GROUP}/*"), _NO_AGGREGATION),
            )
        ),
        printer=NAME_CREATED,
    ),
    KindDescriptor(
        untyped_resource(GROUP, "rolebindings", "RoleBinding"),
        name_check=names.path_segment,
        checks=(check_role_binding,),
        admission_plugins=_BINDING_GRANTS,
        printer=access.ROLE_BINDING,
    ),
    KindDescriptor(
        untyped_resource(GROUP, "roles", "Role"),
        name_check=names.path_segment,
        admission_plugins=_ROLE_GRANTS,
        printer=NAME_CREATED,
    ),
)
