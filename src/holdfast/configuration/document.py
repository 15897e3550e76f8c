"""The shape of the file (``kubescheduler.config.k8s.io/v1``), field by field as upstream's."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api.mistakes import Seconds

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
EXTENDER_TIMEOUT = Seconds(5)
"""How long an extender may take if its httpTimeout says nothing."""


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of the file."""


class PluginRef(_Part, frozen=True):
    """A plugin named in a set."""

    name: str = ""
    weight: int = 0


class PluginSet(_Part, frozen=True):
    """What is switched on and off at one point, or at all of them."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()

    @property
    def off(self) -> frozenset[str]:
        """Names switched off, ``*`` meaning all."""
        return frozenset(ref.name for ref in self.disabled)


class PluginSets(_Part, frozen=True):
    """The sets of a profile."""

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


class PluginConfig(_Part, frozen=True):
    """One plugin's arguments."""

    name: str = ""
    args: Any = None


class ProfileDocument(_Part, frozen=True):
    """One profile."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: PluginSets = PluginSets()
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(_Part, frozen=True):
    """Whether and how several replicas agree on one that decides."""

    leader_elect: bool = True
    lease_duration: Seconds = Seconds(15)
    renew_deadline: Seconds = Seconds(10)
    retry_period: Seconds = Seconds(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(_Part, frozen=True):
    """How to reach the API server; ``qps`` 0 is no limit of our own."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: int = 0


class ManagedResource(_Part, frozen=True):
    """An extended resource that an extender looks after."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTls(_Part, frozen=True):
    """How to make sure who an extender is, and who we are."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(_Part, frozen=True):
    """An HTTP service that is asked too; a verb left empty is not asked for."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTls | None = None
    http_timeout: Seconds = EXTENDER_TIMEOUT
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class Document(_Part, frozen=True):
    """The whole file."""

    api_version: str = ""
    kind: str = ""
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[ProfileDocument, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
