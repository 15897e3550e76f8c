"""Decode, default and validate raw values, and build a ``Configuration`` from them.

``effective_configuration`` writes it out again, for /configz.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.api.field_errors import duplicate, invalid, required
from holdfast.api.strict_decode import decode_struct as read_struct
from holdfast.runtime.errors import Cause
from holdfast.runtime.settings import ElectionSettings, MigrationSettings, RequestLimits
from holdfast.scheduling.configuration.catalog import Catalog
from holdfast.scheduling.configuration.document import (
    API_VERSION,
    GROUP,
    KIND,
    ClientConnection,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    ProfileDocument,
)
from holdfast.scheduling.configuration.plugin_instances import FIT
from holdfast.scheduling.configuration.problems import Problems
from holdfast.scheduling.configuration.profiles import ProfileBuilder
from holdfast.scheduling.configuration.validation import (
    check_extenders,
    check_percentage,
    check_process,
    check_queue,
)
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.extender import TIMEOUT, ExtenderConfig, ignored_resources
from holdfast.scheduling.plugins import PROFILE_NAMES, default_profiles

NO_POINT = "reservation"
"""Koordinator's guide shows this name among the extension points."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings of a configuration file; the defaults are those without a file."""

    profiles: Mapping[str, Profile] = field(default_factory=default_profiles)
    """By scheduler name."""
    extenders: tuple[ExtenderConfig, ...] = ()
    backoff: tuple[float, float] = (1.0, 10.0)
    """Initial and maximum backoff of a rejected pod, in seconds."""
    leader_election: LeaderElectionConfiguration = field(
        default_factory=LeaderElectionConfiguration
    )
    client_connection: ClientConnection = field(default_factory=ClientConnection)
    migration: MigrationSettings = field(default_factory=MigrationSettings)
    """Of the arguments of MigrationController in a DeschedulerConfiguration."""
    warnings: tuple[str, ...] = ()
    """Settings that work but are probably not intended."""


def read(raw: Any, catalog: Catalog | None = None) -> Configuration:
    """Read a configuration; raise BadConfiguration (or NotBuilt) listing every error.

    A missing apiVersion or kind is not an error.
    """
    problems = Problems()
    if not isinstance(raw, dict):
        problems.add_errors(invalid(KIND, raw, "must be an object"))
        raw = {}
    document = _defaulted(
        read_struct(
            KubeSchedulerConfiguration, _with_known_points(raw, problems), "", problems.errors
        )
    )
    _check_kind(document, problems)
    check_process(document, problems)
    profiles = _profiles(document, catalog or Catalog(), problems)
    check_queue(document, problems)
    check_extenders(document.extenders, problems)
    problems.raise_if_any()
    return Configuration(
        profiles=profiles,
        extenders=document.extenders,
        backoff=(
            float(document.pod_initial_backoff_seconds),
            float(document.pod_max_backoff_seconds),
        ),
        leader_election=document.leader_election,
        client_connection=document.client_connection,
        warnings=tuple(problems.warnings),
    )


def _with_known_points(raw: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """Read ``plugins.reservation``, as in Koordinator's guide, as part of multiPoint."""
    profiles = raw.get("profiles")
    if not isinstance(profiles, list):
        return raw
    return {**raw, "profiles": [_with_known_point(p, i, problems) for i, p in enumerate(profiles)]}


def _with_known_point(profile: Any, index: int, problems: Problems) -> Any:
    sets = profile.get("plugins") if isinstance(profile, dict) else None
    if not isinstance(sets, dict) or not isinstance(sets.get(NO_POINT), dict):
        return profile
    problems.add_warning(
        f'profiles[{index}].plugins.{NO_POINT}: "{NO_POINT}" is not an extension point; it is '
        "read as multiPoint"
    )
    rest = {name: one for name, one in sets.items() if name != NO_POINT}
    own, misnamed = rest.get("multiPoint") or {}, sets[NO_POINT]
    if isinstance(own, dict):
        keys = {*own, *misnamed}
        rest["multiPoint"] = {k: [*_listed(own.get(k)), *_listed(misnamed.get(k))] for k in keys}
    return {**profile, "plugins": rest}


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def _check_kind(document: KubeSchedulerConfiguration, problems: Problems) -> None:
    if document.kind not in ("", KIND):
        problems.add_errors(invalid("kind", document.kind, f"must be {KIND}"))
    elif document.api_version not in ("", API_VERSION):
        message = f'no kind "{KIND}" is registered for this version; write {API_VERSION}'
        problems.add_errors(invalid("apiVersion", document.api_version, message))


def _defaulted(document: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Replace empty and zero values with defaults where upstream does."""
    default, election = LeaderElectionConfiguration(), document.leader_election
    filled = {
        name: getattr(election, name) or getattr(default, name)
        for name in LeaderElectionConfiguration.__struct_fields__
        if name != "leader_elect"
    }
    profiles = document.profiles
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        only = msgspec.structs.replace(profiles[0], scheduler_name=PROFILE_NAMES[0])
        profiles = (only,)
    return msgspec.structs.replace(
        document,
        leader_election=msgspec.structs.replace(election, **filled),
        profiles=profiles,
        extenders=tuple(
            msgspec.structs.replace(e, http_timeout=e.http_timeout or TIMEOUT)
            for e in document.extenders
        ),
    )


def _profiles(
    document: KubeSchedulerConfiguration, catalog: Catalog, problems: Problems
) -> dict[str, Profile]:
    profiles: dict[str, Profile] = {}
    ignored = ignored_resources(document.extenders)
    if not document.profiles:
        return default_profiles({FIT: {"ignoredResources": list(ignored)}} if ignored else None)
    seen: set[str] = set()
    for i, profile in enumerate(document.profiles):
        path, name = f"profiles[{i}]", profile.scheduler_name or ""
        if not name:
            problems.add_errors(required(f"{path}.schedulerName"))
        check_percentage(
            f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score, problems
        )
        profiles[name] = ProfileBuilder(name, path, profile, catalog, problems).build(ignored)
        if name in seen:
            problems.add_errors(duplicate(f"{path}.schedulerName", name))
        seen.add(name)
    _check_queue_sort(document.profiles, problems)
    return profiles


def _check_queue_sort(profiles: tuple[ProfileDocument, ...], problems: Problems) -> None:
    """Require the same queue sort plugin in all profiles: they share one queue."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        path = "profiles[0].plugins.queueSort.enabled"
        message = "only one queue sort plugin can be enabled"
        problems.add_errors(invalid(path, len(first.enabled), message))
    sorting = first.enabled[0].name if first.enabled else ""
    args = _args_of(profiles[0], sorting)
    for i, profile in enumerate(profiles[1:], 1):
        own, path = profile.plugins.queue_sort, f"profiles[{i}]"
        if own != first:
            message = "must be the same for all profiles"
            problems.add_errors(
                invalid(f"{path}.plugins.queueSort", msgspec.to_builtins(own), message)
            )
        if sorting and _args_of(profile, sorting) != args:
            message = "queueSort must be the same for all profiles"
            problems.add_errors(Cause(f"{path}.pluginConfig.args", f"Invalid value: {message}"))


def _args_of(profile: ProfileDocument, name: str) -> Any:
    return next((config.args for config in profile.plugin_config if config.name == name), None)


def effective_configuration(configuration: Configuration) -> dict[str, Any]:
    """Return the configuration in effect as JSON values, without secrets."""
    election, connection = configuration.leader_election, configuration.client_connection
    initial, longest = configuration.backoff
    return {
        GROUP: {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "podInitialBackoffSeconds": int(initial),
            "podMaxBackoffSeconds": int(longest),
            "leaderElection": {
                "leaderElect": election.leader_elect,
                "leaseDuration": f"{election.lease_duration:g}s",
                "renewDeadline": f"{election.renew_deadline:g}s",
                "retryPeriod": f"{election.retry_period:g}s",
                "resourceLock": election.resource_lock,
                "resourceName": election.resource_name,
                "resourceNamespace": election.resource_namespace,
            },
            "clientConnection": {
                "kubeconfig": connection.kubeconfig,
                "qps": connection.qps,
                "burst": connection.burst,
            },
            "profiles": [_profile(each) for each in configuration.profiles.values()],
            "extenders": [{"urlPrefix": each.url_prefix} for each in configuration.extenders],
        }
    }


def _profile(profile: Profile) -> dict[str, Any]:
    enabled = [{"name": p.name, "weight": profile.weight(p.name)} for p in profile.plugins]
    return {"schedulerName": profile.name, "plugins": {"multiPoint": {"enabled": enabled}}}


def election_settings(
    configuration: Configuration, *, leader_elect: bool | None = None, name: str = ""
) -> ElectionSettings:
    """Return the leader election of a configuration.

    ``leader_elect`` comes before the configuration unless it is None. ``name`` replaces the name
    of the lease, for a process other than the scheduler.
    """
    given = configuration.leader_election
    return ElectionSettings(
        name=name or given.resource_name,
        namespace=given.resource_namespace,
        leader_elect=given.leader_elect if leader_elect is None else leader_elect,
        lease_duration_seconds=given.lease_duration,
        renew_deadline_seconds=given.renew_deadline,
        retry_period_seconds=given.retry_period,
    )


def request_limits(configuration: Configuration) -> RequestLimits:
    """Return the limits of requests of a configuration."""
    connection = configuration.client_connection
    return RequestLimits(connection.qps, connection.burst)
