"""From raw values to a ``Configuration``: read, default, validate, build, in that order.

``effective`` goes the other way, for /configz.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.api.causes import duplicate, invalid, required
from holdfast.api.mistakes import read as read_struct
from holdfast.configuration.catalog import Catalog
from holdfast.configuration.document import (
    API_VERSION,
    GROUP,
    KIND,
    ClientConnection,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    ProfileDocument,
)
from holdfast.configuration.findings import Findings
from holdfast.configuration.instances import FIT
from holdfast.configuration.profiles import ProfileReading
from holdfast.configuration.validation import (
    check_extenders,
    check_percentage,
    check_process,
    check_queue,
)
from holdfast.engine.profile import Profile
from holdfast.errors import Cause
from holdfast.framework.extender import TIMEOUT, ExtenderConfig, ignored_resources
from holdfast.plugins import PROFILE_NAMES, default_profiles

NO_POINT = "reservation"
"""What Koordinator's guide shows among the extension points."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a file comes to; without a file, what there is without one."""

    profiles: Mapping[str, Profile] = field(default_factory=default_profiles)
    """By scheduler name."""
    extenders: tuple[ExtenderConfig, ...] = ()
    backoff: tuple[float, float] = (1.0, 10.0)
    """How long a pod waits after its first rejection, and at most; seconds."""
    leader_election: LeaderElectionConfiguration = field(
        default_factory=LeaderElectionConfiguration
    )
    client_connection: ClientConnection = field(default_factory=ClientConnection)
    warnings: tuple[str, ...] = ()
    """What works and may not be meant."""


def read(raw: Any, catalog: Catalog | None = None) -> Configuration:
    """Read a configuration; BadConfiguration (or NotBuilt) names everything that is wrong.

    Without apiVersion and kind it is taken for what it should be.
    """
    found = Findings()
    if not isinstance(raw, dict):
        found.wrong(invalid(KIND, raw, "must be an object"))
        raw = {}
    document = _defaulted(
        read_struct(KubeSchedulerConfiguration, _with_real_points(raw, found), "", found.mistakes)
    )
    _check_kind(document, found)
    check_process(document, found)
    profiles = _profiles(document, catalog or Catalog(), found)
    check_queue(document, found)
    check_extenders(document.extenders, found)
    found.refuse_if_wrong()
    return Configuration(
        profiles=profiles,
        extenders=document.extenders,
        backoff=(
            float(document.pod_initial_backoff_seconds),
            float(document.pod_max_backoff_seconds),
        ),
        leader_election=document.leader_election,
        client_connection=document.client_connection,
        warnings=tuple(found.warnings),
    )


def _with_real_points(raw: dict[str, Any], found: Findings) -> dict[str, Any]:
    """Read ``plugins.reservation``, which Koordinator's guide shows, as what it can only mean."""
    profiles = raw.get("profiles")
    if not isinstance(profiles, list):
        return raw
    return {**raw, "profiles": [_with_real_point(p, i, found) for i, p in enumerate(profiles)]}


def _with_real_point(profile: Any, index: int, found: Findings) -> Any:
    sets = profile.get("plugins") if isinstance(profile, dict) else None
    if not isinstance(sets, dict) or not isinstance(sets.get(NO_POINT), dict):
        return profile
    found.warn(
        f'profiles[{index}].plugins.{NO_POINT}: "{NO_POINT}" is no extension point; read as '
        "multiPoint"
    )
    rest = {name: one for name, one in sets.items() if name != NO_POINT}
    given, meant = rest.get("multiPoint") or {}, sets[NO_POINT]
    if isinstance(given, dict):
        keys = {*given, *meant}
        rest["multiPoint"] = {k: [*_listed(given.get(k)), *_listed(meant.get(k))] for k in keys}
    return {**profile, "plugins": rest}


def _listed(given: Any) -> list[Any]:
    if isinstance(given, list):
        return given
    return [] if given is None else [given]


def _check_kind(document: KubeSchedulerConfiguration, found: Findings) -> None:
    if document.kind not in ("", KIND):
        found.wrong(invalid("kind", document.kind, f"must be {KIND}"))
    elif document.api_version not in ("", API_VERSION):
        words = f'no kind "{KIND}" is registered for this version; write {API_VERSION}'
        found.wrong(invalid("apiVersion", document.api_version, words))


def _defaulted(document: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Empty and zero mean the default where upstream says so."""
    default, given = LeaderElectionConfiguration(), document.leader_election
    filled = {
        name: getattr(given, name) or getattr(default, name)
        for name in LeaderElectionConfiguration.__struct_fields__
        if name != "leader_elect"
    }
    profiles = document.profiles
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        only = msgspec.structs.replace(profiles[0], scheduler_name=PROFILE_NAMES[0])
        profiles = (only,)
    return msgspec.structs.replace(
        document,
        leader_election=msgspec.structs.replace(given, **filled),
        profiles=profiles,
        extenders=tuple(
            msgspec.structs.replace(e, http_timeout=e.http_timeout or TIMEOUT)
            for e in document.extenders
        ),
    )


def _profiles(
    document: KubeSchedulerConfiguration, catalog: Catalog, found: Findings
) -> dict[str, Profile]:
    profiles: dict[str, Profile] = {}
    ignored = ignored_resources(document.extenders)
    if not document.profiles:
        return default_profiles({FIT: {"ignoredResources": list(ignored)}} if ignored else None)
    seen: set[str] = set()
    for i, profile in enumerate(document.profiles):
        path, name = f"profiles[{i}]", profile.scheduler_name or ""
        if not name:
            found.wrong(required(f"{path}.schedulerName"))
        check_percentage(
            f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score, found
        )
        profiles[name] = ProfileReading(name, path, profile, catalog, found).profile(ignored)
        if name in seen:
            found.wrong(duplicate(f"{path}.schedulerName", name))
        seen.add(name)
    _check_queue_sort(document.profiles, found)
    return profiles


def _check_queue_sort(profiles: tuple[ProfileDocument, ...], found: Findings) -> None:
    """There is one queue for all profiles."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        path = "profiles[0].plugins.queueSort.enabled"
        words = "only one queue sort plugin can be enabled"
        found.wrong(invalid(path, len(first.enabled), words))
    sorting = first.enabled[0].name if first.enabled else ""
    args = _args_of(profiles[0], sorting)
    for i, profile in enumerate(profiles[1:], 1):
        own, path = profile.plugins.queue_sort, f"profiles[{i}]"
        if own != first:
            words = "must be the same for all profiles"
            found.wrong(invalid(f"{path}.plugins.queueSort", msgspec.to_builtins(own), words))
        if sorting and _args_of(profile, sorting) != args:
            words = "queueSort must be the same for all profiles"
            found.wrong(Cause(f"{path}.pluginConfig.args", f"Invalid value: {words}"))


def _args_of(profile: ProfileDocument, name: str) -> Any:
    return next((config.args for config in profile.plugin_config if config.name == name), None)


def effective(configuration: Configuration) -> dict[str, Any]:
    """Write out what holds, defaults and merging done; nothing secret is among it."""
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
