"""The kinds of ``batch``: Job and CronJob."""

from __future__ import annotations

from holdfast.apiserver.descriptor import DeletionStrategy, KindDescriptor, SelectableField
from holdfast.apiserver.kinds.admission import gated_fields
from holdfast.apiserver.kinds.printers import workloads
from holdfast.apiserver.kinds.untyped_resources import untyped_resource
from holdfast.apiserver.unimplemented_features import UnimplementedFeatures
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

KINDS = (
    KindDescriptor(
        untyped_resource(
            "batch", "cronjobs", "CronJob", short=("cj",), categories=("all",), parts=("status",)
        ),
        list_limits=tree_of(list_limits.CRON_JOB),
        admission_plugins=(gated_fields.CRON_JOB,),
        printer=workloads.CRON_JOB,
        has_generation=True,
        unimplemented=UnimplementedFeatures(
            "CronJobs are stored but start no Jobs: Holdfast has no CronJob controller"
        ),
    ),
    KindDescriptor(
        untyped_resource("batch", "jobs", "Job", categories=("all",), parts=("status",)),
        list_limits=tree_of(list_limits.WORKLOAD),
        admission_plugins=(gated_fields.WORKLOAD,),
        printer=workloads.JOB,
        selectable_fields={
            "status.successful": SelectableField(("status", "succeeded"), absent="0")
        },
        deletion=DeletionStrategy(orphans_by_default=True),
        has_generation=True,
        unimplemented=UnimplementedFeatures(
            "Jobs are stored but not run: Holdfast has no Job controller"
        ),
    ),
)
