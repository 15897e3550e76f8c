"""The settings of the pod migration controller, from its arguments."""

from __future__ import annotations

import msgspec

from holdfast.api.workloads import SYSTEM_PRIORITIES
from holdfast.migration.arguments import MigrationControllerArgs, limiters, queries_per_second
from holdfast.settings import MigrationSettings, ObjectLimit


def migration_settings(args: MigrationControllerArgs) -> MigrationSettings:
    """Return the settings of valid arguments.

    >>> migration_settings(MigrationControllerArgs()) == MigrationSettings()
    True
    """
    threshold, arbitration = args.priority_threshold, args.arbitration_args
    return MigrationSettings(
        workers=args.max_concurrent_reconciles,
        dry_run=args.dry_run,
        default_mode=args.default_job_mode,
        evict_failed_bare_pods=args.evict_failed_bare_pods,
        evict_all_bare_pods=args.evict_all_bare_pods,
        evict_local_storage_pods=args.evict_local_storage_pods,
        evict_system_critical_pods=args.evict_system_critical_pods,
        ignore_pvc_pods=args.ignore_pvc_pods,
        priority_threshold=SYSTEM_PRIORITIES.get(threshold.name, threshold.value),
        label_selector=_raw(args.label_selector),
        included_namespaces=frozenset(args.namespaces.include),
        excluded_namespaces=frozenset(args.namespaces.exclude),
        max_globally=args.max_migrating_globally,
        max_per_namespace=args.max_migrating_per_namespace,
        max_per_node=args.max_migrating_per_node,
        max_per_workload=args.max_migrating_per_workload,
        max_unavailable_per_workload=args.max_unavailable_per_workload,
        skip_check_expected_replicas=args.skip_check_expected_replicas,
        object_limits={
            name: ObjectLimit(float(each.duration), each.max_migrating or None, each.burst)
            for name, each in limiters(args).items()
        },
        evict_qps=queries_per_second(args) or 0.0,
        evict_burst=args.evict_burst,
        eviction_policy=args.eviction_policy,
        delete_options=_raw(args.default_delete_options),
        arbitrate=arbitration.enabled,
        arbitration_interval_seconds=float(arbitration.interval),
        default_ttl_seconds=float(args.default_job_ttl),
        scheduler_names=frozenset(args.scheduler_names),
    )


def _raw(part: msgspec.Struct | None) -> dict[str, object] | None:
    """Return the fields that are set; 0 and false are values too."""
    if part is None:
        return None
    found: dict[str, object] = msgspec.to_builtins(part)
    return {name: value for name, value in found.items() if value not in (None, "", (), {})}
