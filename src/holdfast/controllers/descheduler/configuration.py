"""DeschedulerConfiguration: the settings of a descheduler, and the fields of the file.

The file is ``descheduler/v1alpha2``, in Koordinator's shape. ``read`` raises an error that lists
every mistake.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.api.field_errors import duplicate, invalid, not_supported, required
from holdfast.api.labels import EVERYTHING, Selector, parse
from holdfast.api.meta import LabelSelector
from holdfast.api.strict_decode import Seconds, decode_struct
from holdfast.api.validation.template import check_selector
from holdfast.controllers.descheduler.policies import POLICIES, UNBUILT, DeschedulerPolicy
from holdfast.controllers.descheduler.policies.low_node_load import DEFAULT_ARGS, LowNodeLoad
from holdfast.controllers.descheduler.policies.policy import (
    PolicyArgs,
    selector_or_everything,
)
from holdfast.runtime.errors import BadConfiguration, BadRequest, Cause, NotBuilt
from holdfast.runtime.settings import MigrationSettings
from holdfast.scheduling.configuration.document import (
    ClientConnection,
    LeaderElectionConfiguration,
    PluginConfig,
    PluginRef,
    PluginSet,
)
from holdfast.scheduling.configuration.problems import Problems
from holdfast.scheduling.configuration.validation import check_election
from holdfast.scheduling.framework.extender import ConfigurationPart
from holdfast.state.migration.arguments import (
    API_VERSION,
    KIND,
    MigrationControllerArgs,
    find_args,
    migration_settings,
)
from holdfast.state.migration.arguments import PLUGIN as MIGRATION_CONTROLLER

NAME = "holdfast-descheduler"
"""The name of the component, its lease and its default profile, and its name in jobs it creates."""
INTERVAL_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class ConfiguredPolicy:
    """A policy with its arguments."""

    policy: type[DeschedulerPolicy]
    args: PolicyArgs


@dataclass(frozen=True, slots=True)
class DeschedulerProfile:
    """Policies in the order in which they run."""

    name: str = NAME
    policies: tuple[ConfiguredPolicy, ...] = tuple(
        ConfiguredPolicy(policy, DEFAULT_ARGS if policy is LowNodeLoad else policy.Args())
        for policy in POLICIES.values()
    )
    node_selector: Selector = EVERYTHING


class ElectionDocument(LeaderElectionConfiguration, frozen=True):
    """The leader election, with our own lease."""

    resource_name: str = NAME


@dataclass(frozen=True, slots=True)
class DeschedulerConfiguration:
    """The settings; the defaults are those without a file."""

    interval_seconds: float = INTERVAL_SECONDS
    dry_run: bool = False
    profiles: tuple[DeschedulerProfile, ...] = (DeschedulerProfile(),)
    node_selector: Selector = EVERYTHING
    max_per_node: int | None = None
    max_per_namespace: int | None = None
    max_per_cycle: int | None = None
    migration: MigrationSettings = field(default_factory=MigrationSettings)
    """The settings of the jobs, and which pods may migrate."""
    node_fit: bool = False
    """Whether every policy moves only pods that fit on another node."""
    target_selector: Selector = EVERYTHING
    """The nodes to which pods may move."""
    leader_election: LeaderElectionConfiguration = field(default_factory=ElectionDocument)
    client_connection: ClientConnection = field(default_factory=ClientConnection)
    warnings: tuple[str, ...] = ()

    def effective(self) -> dict[str, Any]:
        """Return the configuration in effect as JSON values, for /configz."""
        election = self.leader_election
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "deschedulingInterval": f"{self.interval_seconds:g}s",
            "dryRun": self.dry_run,
            "leaderElection": {
                "leaderElect": election.leader_elect,
                "resourceName": election.resource_name,
                "resourceNamespace": election.resource_namespace,
            },
            "maxNoOfPodsToEvictPerNode": self.max_per_node,
            "maxNoOfPodsToEvictPerNamespace": self.max_per_namespace,
            "maxNoOfPodsToEvictTotal": self.max_per_cycle,
            "profiles": [
                {"name": profile.name, "plugins": [each.policy.name for each in profile.policies]}
                for profile in self.profiles
            ],
        }


class DeschedulerPlugins(ConfigurationPart, frozen=True):
    """The plugins of a profile, by extension point."""

    deschedule: PluginSet = PluginSet()
    balance: PluginSet = PluginSet()
    evict: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()


class DeschedulerProfileDocument(ConfigurationPart, frozen=True):
    """One profile of the file."""

    name: str = ""
    node_selector: LabelSelector | None = None
    plugins: DeschedulerPlugins = DeschedulerPlugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class Document(ConfigurationPart, frozen=True):
    """The whole file."""

    api_version: str = ""
    kind: str = ""
    leader_election: ElectionDocument = ElectionDocument()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
    descheduling_interval: Seconds = Seconds(INTERVAL_SECONDS)
    dry_run: bool = False
    profiles: tuple[DeschedulerProfileDocument, ...] = ()
    node_selector: LabelSelector | None = None
    max_no_of_pods_to_evict_per_node: int | None = None
    max_no_of_pods_to_evict_per_namespace: int | None = None
    max_no_of_pods_to_evict_total: int | None = None


def read(raw: Any) -> DeschedulerConfiguration:
    """Read a configuration; raise BadConfiguration (or NotBuilt) listing every error."""
    problems = Problems(KIND)
    document = decode_struct(Document, raw, "", problems.errors)
    _check_process(document, problems)
    problems.add_errors(*check_selector(document.node_selector, "nodeSelector"))
    migration = _migration_args(raw, problems)
    profiles = []
    names: set[str] = set()
    for i, given in enumerate(document.profiles):
        path = f"profiles[{i}]"
        name = given.name or (NAME if len(document.profiles) == 1 else "")
        if not name:
            problems.add_errors(required(f"{path}.name"))
        elif name in names:
            problems.add_errors(duplicate(f"{path}.name", name))
        names.add(name)
        problems.add_errors(*check_selector(given.node_selector, f"{path}.nodeSelector"))
        policies = _ProfileReader(given, path, problems).policies()
        profiles.append((name, policies, given.node_selector))
    problems.raise_if_any()
    return DeschedulerConfiguration(
        document.descheduling_interval,
        document.dry_run,
        tuple(
            DeschedulerProfile(name, policies, selector_or_everything(selector))
            for name, policies, selector in profiles
        )
        or (DeschedulerProfile(),),
        selector_or_everything(document.node_selector),
        document.max_no_of_pods_to_evict_per_node,
        document.max_no_of_pods_to_evict_per_namespace,
        document.max_no_of_pods_to_evict_total,
        migration_settings(migration),
        migration.node_fit,
        parse(migration.node_selector),
        document.leader_election,
        document.client_connection,
        tuple(problems.warnings),
    )


def _migration_args(raw: Any, problems: Problems) -> MigrationControllerArgs:
    try:
        args = find_args(raw)
        parse(args.node_selector)
    except (BadConfiguration, NotBuilt) as wrong:
        for cause in wrong.details.causes:
            listed = problems.unbuilt if cause.reason == "NotImplemented" else problems.errors
            listed.append(cause)
        return MigrationControllerArgs()
    except BadRequest as wrong:
        path = "pluginConfig[MigrationController].args.nodeSelector"
        problems.add_errors(invalid(path, args.node_selector, str(wrong)))
        return MigrationControllerArgs()
    return args


def _check_process(document: Document, problems: Problems) -> None:
    if document.kind not in ("", KIND):
        problems.add_errors(invalid("kind", document.kind, f"must be {KIND}"))
    elif document.api_version not in ("", API_VERSION):
        problems.add_errors(invalid("apiVersion", document.api_version, f"must be {API_VERSION}"))
    if document.leader_election.leader_elect:
        check_election(document.leader_election, problems)
    if document.descheduling_interval <= 0:
        message = "must be greater than zero; for a single cycle use --once"
        shown = f"{document.descheduling_interval:g}s"
        problems.add_errors(invalid("deschedulingInterval", shown, message))
    for name, most in (
        ("maxNoOfPodsToEvictPerNode", document.max_no_of_pods_to_evict_per_node),
        ("maxNoOfPodsToEvictPerNamespace", document.max_no_of_pods_to_evict_per_namespace),
        ("maxNoOfPodsToEvictTotal", document.max_no_of_pods_to_evict_total),
    ):
        if most is not None and most < 0:
            problems.add_errors(invalid(name, most, "must be greater than or equal to 0"))
    for name, address in (
        ("healthzBindAddress", document.healthz_bind_address),
        ("metricsBindAddress", document.metrics_bind_address),
    ):
        if address:
            problems.add_warning(f"{name} has no effect: use --health-port")


class _ProfileReader:
    """Reads the plugins of one profile."""

    def __init__(self, given: DeschedulerProfileDocument, path: str, problems: Problems) -> None:
        self._given, self._path, self._problems = given, path, problems

    def policies(self) -> tuple[ConfiguredPolicy, ...]:
        """Return the enabled policies with their arguments."""
        arguments = self._arguments()
        by_name: dict[str, ConfiguredPolicy] = {}
        sets = self._given.plugins
        for point, listed in (("deschedule", sets.deschedule), ("balance", sets.balance)):
            for i, ref in enumerate(listed.enabled):
                path = f"{self._path}.plugins.{point}.enabled[{i}].name"
                policy = self._policy(ref, point, path)
                if ref.name in by_name:
                    self._problems.add_errors(duplicate(path, ref.name))
                elif policy is not None:
                    by_name[ref.name] = ConfiguredPolicy(
                        policy, arguments.get(ref.name, policy.Args())
                    )
        for point, listed in (("evict", sets.evict), ("filter", sets.filter)):
            for i, ref in enumerate(listed.enabled):
                if ref.name != MIGRATION_CONTROLLER:
                    path = f"{self._path}.plugins.{point}.enabled[{i}].name"
                    self._problems.add_errors(
                        not_supported(path, ref.name, (MIGRATION_CONTROLLER,))
                    )
        return tuple(by_name.values())

    def _policy(self, ref: PluginRef, point: str, path: str) -> type[DeschedulerPolicy] | None:
        policy = POLICIES.get(ref.name)
        if policy is None:
            if ref.name in UNBUILT:
                self._problems.add_not_built(path, f'plugin "{ref.name}" is not supported yet')
            else:
                self._problems.add_errors(not_supported(path, ref.name, POLICIES))
            return None
        expected = "balance" if policy.balances else "deschedule"
        if point != expected:
            message = f"plugin {ref.name} belongs to {expected}"
            self._problems.add_errors(invalid(path, ref.name, message))
        return policy

    def _arguments(self) -> dict[str, PolicyArgs]:
        arguments: dict[str, PolicyArgs] = {}
        seen: set[str] = set()
        for i, config in enumerate(self._given.plugin_config):
            path = f"{self._path}.pluginConfig[{i}]"
            if config.name in seen:
                self._problems.add_errors(duplicate(f"{path}.name", config.name))
            seen.add(config.name)
            policy = POLICIES.get(config.name)
            if policy is not None:
                arguments[config.name] = self._read_args(policy, config, f"{path}.args")
            elif config.name != MIGRATION_CONTROLLER:
                known = (*POLICIES, MIGRATION_CONTROLLER)
                self._problems.add_errors(not_supported(f"{path}.name", config.name, known))
        return arguments

    def _read_args(
        self, policy: type[DeschedulerPolicy], config: PluginConfig, path: str
    ) -> PolicyArgs:
        causes: list[Cause] = []
        args = decode_struct(policy.Args, config.args, path, causes)
        self._problems.add_errors(*causes)
        for name, given, expected in (
            ("apiVersion", args.api_version, API_VERSION),
            ("kind", args.kind, f"{policy.name}Args"),
        ):
            if given not in ("", expected):
                self._problems.add_errors(invalid(f"{path}.{name}", given, f"must be {expected}"))
        args.check(path, self._problems)
        return args
