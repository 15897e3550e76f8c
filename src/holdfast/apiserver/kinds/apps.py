"""The kinds of ``apps``: what makes pods, and makes them again."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import Served, each_write, selectable
from holdfast.apiserver.kinds.printers import workloads
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.kinds.unbuilt_pod_fields import TEMPLATE_FIELDS
from holdfast.apiserver.kinds.validation.workloads import check_workload
from holdfast.apiserver.unbuilt import Unbuilt
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

_LISTS = tree_of(list_limits.WORKLOAD)
_CHECKS = (each_write(check_workload),)
_TEMPLATE = Unbuilt(fields=TEMPLATE_FIELDS)

KINDS = (
    Served(
        row("apps", "controllerrevisions", "ControllerRevision"),
        printer=workloads.CONTROLLER_REVISION,
    ),
    Served(
        row(
            "apps", "daemonsets", "DaemonSet", short=("ds",), categories=("all",), parts=("status",)
        ),
        lists=_LISTS,
        checks=_CHECKS,
        printer=workloads.DAEMON_SET,
        counts_generations=True,
        unbuilt=Unbuilt(
            "DaemonSets are stored but make no pods: Holdfast has no DaemonSet controller"
        ),
    ),
    Served(
        scheme.DEPLOYMENTS,
        lists=_LISTS,
        checks=_CHECKS,
        immutable=("spec.selector",),
        printer=workloads.DEPLOYMENT,
        counts_generations=True,
        unbuilt=_TEMPLATE,
    ),
    Served(
        scheme.REPLICASETS,
        lists=_LISTS,
        checks=_CHECKS,
        immutable=("spec.selector",),
        printer=workloads.REPLICA_SET,
        selectable=selectable("status.replicas", absent="0"),
        counts_generations=True,
        unbuilt=_TEMPLATE,
    ),
    Served(
        scheme.STATEFULSETS,
        lists=_LISTS,
        checks=_CHECKS,
        printer=workloads.STATEFUL_SET,
        counts_generations=True,
        unbuilt=Unbuilt(
            "StatefulSets are stored but make no pods: Holdfast has no StatefulSet controller"
        ),
    ),
)
