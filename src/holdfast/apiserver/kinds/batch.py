"""The kinds of ``batch``: Job and CronJob."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api import field_errors
from holdfast.api.json_fields import Raw, map_at, text_at
from holdfast.apiserver.descriptor import DeletionStrategy, KindDescriptor, SelectableField
from holdfast.apiserver.kinds.admission import gated_fields
from holdfast.apiserver.kinds.printers import workloads
from holdfast.apiserver.kinds.untyped_resources import untyped_resource
from holdfast.apiserver.kinds.validation.pods import check_pod_spec
from holdfast.apiserver.unimplemented_features import UnimplementedFeatures
from holdfast.errors import Cause
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of
from holdfast.validation.ratcheting import ratcheting
from holdfast.validation.template import NOT_NEGATIVE

_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
)
_RESTART_POLICIES = ("OnFailure", "Never")


def check_job(job: Raw) -> Iterable[Cause]:
    """Yield what is wrong with the counts and the pod template of a Job."""
    return _check_job_spec(map_at(job, "spec"), "spec")


def check_cron_job(cron_job: Raw) -> Iterable[Cause]:
    """Yield what is wrong with a CronJob: its Job template, and whether it has a schedule."""
    spec = map_at(cron_job, "spec")
    if not spec.get("schedule"):
        yield field_errors.required("spec.schedule")
    template = map_at(map_at(spec, "jobTemplate"), "spec")
    yield from _check_job_spec(template, "spec.jobTemplate.spec")


def _check_job_spec(spec: Raw, path: str) -> Iterable[Cause]:
    for part in _COUNTS:
        if (count := spec.get(part)) and count < 0:
            yield field_errors.invalid(f"{path}.{part}", count, NOT_NEGATIVE)
    pod, at = map_at(map_at(spec, "template"), "spec"), f"{path}.template.spec"
    yield from check_pod_spec(pod, at)
    policy, at = text_at(pod, "restartPolicy"), f"{at}.restartPolicy"
    if policy in ("", "Always"):
        yield field_errors.required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in _RESTART_POLICIES:
        yield field_errors.not_supported(at, policy, _RESTART_POLICIES)


KINDS = (
    KindDescriptor(
        untyped_resource(
            "batch", "cronjobs", "CronJob", short=("cj",), categories=("all",), parts=("status",)
        ),
        pod_spec=("spec", "jobTemplate", "spec", "template", "spec"),
        list_limits=tree_of(list_limits.CRON_JOB),
        admission_plugins=(gated_fields.CRON_JOB,),
        checks=(ratcheting(check_cron_job),),
        printer=workloads.CRON_JOB,
        has_generation=True,
        unimplemented=UnimplementedFeatures(
            "CronJobs are stored but start no Jobs: Holdfast has no CronJob controller"
        ),
    ),
    KindDescriptor(
        untyped_resource("batch", "jobs", "Job", categories=("all",), parts=("status",)),
        pod_spec=("spec", "template", "spec"),
        list_limits=tree_of(list_limits.WORKLOAD),
        admission_plugins=(gated_fields.WORKLOAD,),
        checks=(ratcheting(check_job),),
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
