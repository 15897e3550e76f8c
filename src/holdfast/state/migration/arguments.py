"""MigrationControllerArgs as in Koordinator: which pods migrate, how many at once, and how.

They are in a DeschedulerConfiguration, as arguments of the plugin MigrationController. The
controller of PodMigrationJobs and the descheduler read the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.api.field_errors import child, invalid, not_supported
from holdfast.api.meta import LabelSelector
from holdfast.api.pod_migration_job import EVICTION, EVICTION_POLICIES, MODES, RESERVATION_FIRST
from holdfast.api.strict_decode import Seconds, decode_struct
from holdfast.api.validation.template import check_selector
from holdfast.api.workloads import SYSTEM_PRIORITIES
from holdfast.runtime.errors import BadConfiguration, Cause, Details, NotBuilt, aggregate_message
from holdfast.runtime.settings import MigrationSettings, ObjectLimit

API_VERSION, KIND = "descheduler/v1alpha2", "DeschedulerConfiguration"
PLUGIN = "MigrationController"
_NO_GATES = "is not built: use evictAllBarePods, evictLocalStoragePods and the like instead"


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the parts of the arguments."""


class PriorityThreshold(_Part, frozen=True):
    """Pods of this priority or a higher one do not migrate."""

    value: int | None = None
    name: str = ""


class Namespaces(_Part, frozen=True):
    """The namespaces whose pods migrate; empty: all."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class ObjectLimiter(_Part, frozen=True):
    """How many pods of one object may be evicted in a time; 0: as maxMigratingPerWorkload."""

    duration: Seconds = Seconds(0)
    max_migrating: int | str | None = None
    burst: int = 1


class ObjectLimiters(_Part, frozen=True):
    """The limits of a workload and of a namespace."""

    workload: ObjectLimiter | None = None
    namespace: ObjectLimiter | None = None


class ArbitrationArgs(_Part, frozen=True):
    """Whether, and how often, the jobs that may begin are chosen."""

    enabled: bool = True
    interval: Seconds = Seconds(0.5)


class DefaultDeleteOptions(_Part, frozen=True):
    """The options of a deletion, for the check of their names and types."""

    api_version: str = ""
    kind: str = ""
    grace_period_seconds: int | None = None
    preconditions: dict[str, str] | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: tuple[str, ...] = ()
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None


class MigrationControllerArgs(_Part, frozen=True):
    """The arguments; ``node_fit``, ``node_selector`` and ``scheduler_names`` are the descheduler's.

    ``default_job_ttl`` is the ttl of jobs that the descheduler creates.
    """

    api_version: str = ""
    kind: str = ""
    dry_run: bool = False
    max_concurrent_reconciles: int = 1
    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    priority_threshold: PriorityThreshold = PriorityThreshold()
    label_selector: LabelSelector | None = None
    namespaces: Namespaces = Namespaces()
    node_fit: bool = False
    node_selector: str = ""
    skip_eviction_gates: tuple[str, ...] = ()
    max_migrating_globally: int | None = None
    max_migrating_per_namespace: int | None = None
    max_migrating_per_node: int = 2
    max_migrating_per_workload: int | str | None = None
    max_unavailable_per_workload: int | str | None = None
    skip_check_expected_replicas: bool = False
    object_limiters: ObjectLimiters = ObjectLimiters(ObjectLimiter(Seconds(300)))
    default_job_mode: str = RESERVATION_FIRST
    default_job_ttl: Seconds = msgspec.field(default=Seconds(300), name="defaultJobTTL")
    evict_qps: float | str = msgspec.field(default=10.0, name="evictQPS")
    evict_burst: int = 1
    eviction_policy: str = EVICTION
    default_delete_options: DefaultDeleteOptions | None = None
    scheduler_names: tuple[str, ...] = ("koord-scheduler",)
    arbitration_args: ArbitrationArgs = ArbitrationArgs()


def read_args(given: Any, path: str = "") -> MigrationControllerArgs:
    """Read the arguments; BadConfiguration, or NotBuilt, lists every wrong field below ``path``."""
    causes: list[Cause] = []
    args = decode_struct(MigrationControllerArgs, given, path, causes)
    causes += (Cause(child(path, c.field), c.message, c.reason) for c in _check(args))
    unbuilt = []
    if args.skip_eviction_gates:
        unbuilt.append(Cause(child(path, "skipEvictionGates"), _NO_GATES, "NotImplemented"))
    if causes or unbuilt:
        all_causes = (*causes, *unbuilt)
        kind = BadConfiguration if causes else NotBuilt
        raise kind(
            aggregate_message(all_causes),
            Details(kind="MigrationControllerArgs", causes=all_causes),
        )
    return args


def find_args(document: Any) -> MigrationControllerArgs:
    """Read the arguments in a raw DeschedulerConfiguration: those of the first profile with any.

    Other parts of the document are not checked: they are the descheduler's.
    """
    profiles = document.get("profiles") if isinstance(document, Mapping) else None
    for i, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        configs = profile.get("pluginConfig") if isinstance(profile, Mapping) else None
        for j, config in enumerate(configs if isinstance(configs, list) else ()):
            if isinstance(config, Mapping) and config.get("name") == PLUGIN:
                return read_args(config.get("args"), f"profiles[{i}].pluginConfig[{j}].args")
    return MigrationControllerArgs()


def _check(args: MigrationControllerArgs) -> Iterator[Cause]:
    yield from _check_kind(args)
    yield from _check_selection(args)
    yield from _check_limits(args)
    if args.max_concurrent_reconciles < 1:
        yield _too_small("maxConcurrentReconciles", args.max_concurrent_reconciles, 1)
    if args.default_job_mode not in MODES:
        yield not_supported("defaultJobMode", args.default_job_mode, MODES)
    if args.eviction_policy not in EVICTION_POLICIES:
        yield not_supported("evictionPolicy", args.eviction_policy, EVICTION_POLICIES)
    if args.default_job_ttl < 0:
        yield invalid("defaultJobTTL", f"{args.default_job_ttl:g}s", "must not be negative")
    if args.arbitration_args.interval <= 0:
        shown = f"{args.arbitration_args.interval:g}s"
        yield invalid("arbitrationArgs.interval", shown, "must be greater than 0")


def _check_kind(args: MigrationControllerArgs) -> Iterator[Cause]:
    if args.kind not in ("", "MigrationControllerArgs"):
        yield invalid("kind", args.kind, "must be MigrationControllerArgs")
    if args.api_version not in ("", API_VERSION):
        yield invalid("apiVersion", args.api_version, f"must be {API_VERSION}")


def _check_selection(args: MigrationControllerArgs) -> Iterator[Cause]:
    if args.label_selector is not None:
        yield from check_selector(args.label_selector, "labelSelector")
    if args.namespaces.include and args.namespaces.exclude:
        shown = msgspec.to_builtins(args.namespaces)
        yield invalid("namespaces", shown, "only one of include and exclude can be set")
    threshold = args.priority_threshold
    if threshold.name and threshold.value is not None:
        shown = msgspec.to_builtins(threshold)
        yield invalid("priorityThreshold", shown, "only one of name and value can be set")
    elif threshold.name and threshold.name not in SYSTEM_PRIORITIES:
        known = ", ".join(SYSTEM_PRIORITIES)
        message = f"only {known} are known here: write the value of the priority class"
        yield invalid("priorityThreshold.name", threshold.name, message)


def _check_limits(args: MigrationControllerArgs) -> Iterator[Cause]:
    counts = {
        "maxMigratingGlobally": args.max_migrating_globally,
        "maxMigratingPerNamespace": args.max_migrating_per_namespace,
        "maxMigratingPerNode": args.max_migrating_per_node,
    }
    for name, count in counts.items():
        if count is not None and count < 0:
            yield _too_small(name, count, 0)
    shares = {
        "maxMigratingPerWorkload": args.max_migrating_per_workload,
        "maxUnavailablePerWorkload": args.max_unavailable_per_workload,
    }
    for name, limiter in limiters(args).items():
        path = f"objectLimiters.{name}"
        shares[f"{path}.maxMigrating"] = limiter.max_migrating
        if limiter.duration < 0:
            yield invalid(f"{path}.duration", f"{limiter.duration:g}s", "must not be negative")
        if limiter.burst < 1:
            yield _too_small(f"{path}.burst", limiter.burst, 1)
    for name, share in shares.items():
        if not _is_count_or_percentage(share):
            yield invalid(name, share, 'must be a count, or a percentage such as "10%"')
    if (qps := queries_per_second(args)) is None or qps <= 0:
        yield invalid("evictQPS", args.evict_qps, "must be a number greater than 0")
    if args.evict_burst < 1:
        yield _too_small("evictBurst", args.evict_burst, 1)


def limiters(args: MigrationControllerArgs) -> dict[str, ObjectLimiter]:
    """Return the object limiters by the kind of object they limit."""
    named = {"workload": args.object_limiters.workload, "namespace": args.object_limiters.namespace}
    return {name: limiter for name, limiter in named.items() if limiter is not None}


def queries_per_second(args: MigrationControllerArgs) -> float | None:
    """Return ``evictQPS``, which may be a text, as a number; None if it is not one."""
    try:
        rate = float(args.evict_qps)
    except ValueError:
        return None
    return rate if rate < float("inf") else None


def _is_count_or_percentage(value: int | str | None) -> bool:
    """Return whether a limit can be used.

    >>> [_is_count_or_percentage(value) for value in (None, 0, "10%", -1, "10", "1.5%")]
    [True, True, True, False, False, False]
    """
    if value is None or isinstance(value, int):
        return value is None or value >= 0
    number = value.removesuffix("%")
    return value.endswith("%") and number.isascii() and number.isdigit() and len(number) < 10


def _too_small(path: str, value: int, least: int) -> Cause:
    return invalid(path, value, f"must be greater than or equal to {least}")


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
    fields: dict[str, object] = msgspec.to_builtins(part)
    return {name: value for name, value in fields.items() if value not in (None, "", (), {})}
