"""The kinds of ``rbac.authorization.k8s.io``: roles, and whom they are given to."""

from __future__ import annotations

from holdfast.api import names
from holdfast.apiserver.access.rbac import GROUP
from holdfast.apiserver.descriptor import Admitter, Served
from holdfast.apiserver.kinds.admission.escalation import check_binding_grants, check_role_grants
from holdfast.apiserver.kinds.printers import access
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.kinds.validation.role_bindings import (
    check_cluster_role_binding,
    check_role_binding,
)
from holdfast.apiserver.tables.printer import NAME_CREATED

_ROLE_GRANTS = (Admitter(validate=check_role_grants),)
_BINDING_GRANTS = (Admitter(validate=check_binding_grants),)

KINDS = (
    Served(
        row(GROUP, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        name_check=names.path_segment,
        checks=(check_cluster_role_binding,),
        admitters=_BINDING_GRANTS,
        printer=access.ROLE_BINDING,
    ),
    Served(
        row(GROUP, "clusterroles", "ClusterRole", namespaced=False),
        name_check=names.path_segment,
        admitters=_ROLE_GRANTS,
        printer=NAME_CREATED,
    ),
    Served(
        row(GROUP, "rolebindings", "RoleBinding"),
        name_check=names.path_segment,
        checks=(check_role_binding,),
        admitters=_BINDING_GRANTS,
        printer=access.ROLE_BINDING,
    ),
    Served(
        row(GROUP, "roles", "Role"),
        name_check=names.path_segment,
        admitters=_ROLE_GRANTS,
        printer=NAME_CREATED,
    ),
)
