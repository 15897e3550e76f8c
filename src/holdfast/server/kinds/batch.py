"""The kinds of ``batch``: Job and CronJob."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api import field_errors
from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import map_at, text_at
from holdfast.api.validation import list_limits
from holdfast.api.validation.counting import tree_of
from holdfast.api.validation.cron_schedule import schedule_errors, time_zone_errors
from holdfast.api.validation.job import check_host_names, check_job_spec
from holdfast.api.validation.names import name_errors
from holdfast.api.validation.ratcheting import ratcheting
from holdfast.api.validation.template import NOT_NEGATIVE
from holdfast.runtime.errors import Cause
from holdfast.server.descriptor import (
    DeletionStrategy,
    KindDescriptor,
    SelectableField,
    untyped_resource,
)
from holdfast.server.kinds.admission import gated_fields, reserved_room
from holdfast.server.kinds.printers import workloads
from holdfast.server.kinds.validation.pods import check_pod_spec
from holdfast.server.unimplemented_features import UnimplementedFeatures

_RESTART_POLICIES = ("OnFailure", "Never")
_CONCURRENCY_POLICIES = ("Allow", "Forbid", "Replace")
_CRON_JOB_COUNTS = (
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
)
_LONGEST_CRON_JOB = 52
"""Eleven characters are added to the names of its Jobs, which label their pods."""


def check_job(job: JsonMapping) -> Iterable[Cause]:
    """Yield what is wrong with a Job and its pod template."""
    yield from check_host_names(job)
    yield from _check_spec(map_at(job, "spec"), "spec")


def check_cron_job(cron_job: JsonMapping) -> Iterable[Cause]:
    """Yield what is wrong with a CronJob: its schedule, its counts and its Job template."""
    name = text_at(map_at(cron_job, "metadata"), "name")
    if len(name) > _LONGEST_CRON_JOB:
        detail = f"must be no more than {_LONGEST_CRON_JOB} characters"
        yield field_errors.invalid("metadata.name", name, detail)
    spec = map_at(cron_job, "spec")
    yield from _check_timing(spec)
    policy = text_at(spec, "concurrencyPolicy")
    if policy not in _CONCURRENCY_POLICIES:
        at = "spec.concurrencyPolicy"
        yield field_errors.not_supported(at, policy, _CONCURRENCY_POLICIES)
    for part in _CRON_JOB_COUNTS:
        if (count := spec.get(part)) and count < 0:
            yield field_errors.invalid(f"spec.{part}", count, NOT_NEGATIVE)
    template, at = map_at(map_at(spec, "jobTemplate"), "spec"), "spec.jobTemplate.spec"
    yield from _check_spec(template, at)
    if (selector := template.get("selector")) is not None:
        detail = "`selector` will be auto-generated"
        yield field_errors.invalid(f"{at}.selector", selector, detail)
    if template.get("manualSelector"):
        yield field_errors.not_supported(f"{at}.manualSelector", True, ("nil", "false"))


def _check_timing(spec: JsonMapping) -> Iterable[Cause]:
    """Yield what is wrong with the schedule and the time zone of a CronJob."""
    schedule, zone = text_at(spec, "schedule"), spec.get("timeZone")
    if not schedule:
        yield field_errors.required("spec.schedule")
    else:
        yield from name_errors("spec.schedule", schedule, schedule_errors(schedule))
    if zone is not None:
        yield from name_errors("spec.timeZone", zone, time_zone_errors(zone))


def _check_spec(spec: JsonMapping, path: str) -> Iterable[Cause]:
    yield from check_job_spec(spec, path)
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
        admission_plugins=(gated_fields.CRON_JOB, reserved_room.CRON_JOB),
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
        admission_plugins=(gated_fields.WORKLOAD, reserved_room.WORKLOAD),
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
