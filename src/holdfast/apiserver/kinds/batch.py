"""The kinds of ``batch``: work that ends."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Deletion, Selectable, Served
from holdfast.apiserver.kinds.printers import workloads
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.unbuilt import Unbuilt
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

KINDS = (
    Served(
        row("batch", "cronjobs", "CronJob", short=("cj",), categories=("all",), parts=("status",)),
        lists=tree_of(list_limits.CRON_JOB),
        printer=workloads.CRON_JOB,
        counts_generations=True,
        unbuilt=Unbuilt(
            "CronJobs are stored but start no Jobs: Holdfast has no CronJob controller"
        ),
    ),
    Served(
        row("batch", "jobs", "Job", categories=("all",), parts=("status",)),
        lists=tree_of(list_limits.WORKLOAD),
        printer=workloads.JOB,
        selectable={"status.successful": Selectable(("status", "succeeded"), absent="0")},
        deletion=Deletion(orphans=True),
        counts_generations=True,
        unbuilt=Unbuilt("Jobs are stored but not run: Holdfast has no Job controller"),
    ),
)
