"""The fields of the file (``kubescheduler.config.k8s.io/v1``), as upstream defines them."""

from __future__ import annotations

from typing import Any

from holdfast.api.strict_decode import Seconds
from holdfast.scheduling.framework.extender import ConfigurationPart, ExtenderConfig

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"


class PluginRef(ConfigurationPart, frozen=True):
    """A plugin in a plugin set."""

    name: str = ""
    weight: int = 0


class PluginSet(ConfigurationPart, frozen=True):
    """Enabled and disabled plugins of one extension point, or of all (multiPoint)."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()

    @property
    def disabled_names(self) -> frozenset[str]:
        """Names of disabled plugins; ``*`` means all."""
        return frozenset(ref.name for ref in self.disabled)


class PluginSets(ConfigurationPart, frozen=True):
    """The plugin sets of a profile, by extension point."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()


class PluginConfig(ConfigurationPart, frozen=True):
    """One plugin's arguments."""

    name: str = ""
    args: Any = None


class ProfileDocument(ConfigurationPart, frozen=True):
    """One profile."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: PluginSets = PluginSets()
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElectionConfiguration(ConfigurationPart, frozen=True):
    """Whether replicas elect a leader, and with which lease and periods."""

    leader_elect: bool = True
    lease_duration: Seconds = Seconds(15)
    renew_deadline: Seconds = Seconds(10)
    retry_period: Seconds = Seconds(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(ConfigurationPart, frozen=True):
    """How to connect to the API server; ``qps`` 0 means no limit."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: int = 0


class KubeSchedulerConfiguration(ConfigurationPart, frozen=True):
    """The whole file."""

    api_version: str = ""
    kind: str = ""
    parallelism: int = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[ProfileDocument, ...] = ()
    extenders: tuple[ExtenderConfig, ...] = ()
    delay_cache_until_active: bool = False
