"""What may be wrong outside the profiles, in upstream's words and order."""

from __future__ import annotations

from holdfast.api.causes import invalid, required
from holdfast.api.durations import SECOND, format_nanoseconds
from holdfast.api.names import label_key
from holdfast.api.resource_names import is_extended
from holdfast.configuration.document import KubeSchedulerConfiguration, LeaderElectionConfiguration
from holdfast.configuration.findings import Findings
from holdfast.framework.extender import ExtenderConfig

JITTER = 1.2
"""How much longer than retryPeriod a try may take, as client-go counts."""


def check_process(document: KubeSchedulerConfiguration, found: Findings) -> None:
    """Check how the process runs: connection, election, parallelism."""
    burst = document.client_connection.burst
    if burst < 0:
        found.wrong(invalid("clientConnection.burst", burst, "must be non-negative"))
    if document.leader_election.leader_elect:
        _check_election(document.leader_election, found)
    if document.parallelism <= 0:
        words = "should be an integer value greater than zero"
        found.wrong(invalid("parallelism", document.parallelism, words))


def check_queue(document: KubeSchedulerConfiguration, found: Findings) -> None:
    """Check how many nodes are to be looked at, and how long failed pods wait."""
    check_percentage("percentageOfNodesToScore", document.percentage_of_nodes_to_score, found)
    first, most = document.pod_initial_backoff_seconds, document.pod_max_backoff_seconds
    if first <= 0:
        found.wrong(invalid("podInitialBackoffSeconds", first, "must be greater than 0"))
    if most < first:
        words = "must be greater than or equal to PodInitialBackoffSeconds"
        found.wrong(invalid("podMaxBackoffSeconds", most, words))


def check_percentage(path: str, percentage: int | None, found: Findings) -> None:
    """Check a share of nodes."""
    if percentage is not None and not 0 <= percentage <= 100:
        found.wrong(invalid(path, percentage, "not in valid range [0-100]"))


def check_extenders(extenders: tuple[ExtenderConfig, ...], found: Findings) -> None:
    """Check the extenders one by one, and what only one of them may do."""
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            words = "must have a positive weight applied to it"
            found.wrong(invalid(f"{path}.weight", extender.weight, words))
        for j, resource in enumerate(extender.managed_resources):
            name, at = resource.name, f"{path}.managedResources[{j}].name"
            _check_resource(name, at, found)
            if name in managed:
                found.wrong(invalid(at, name, "duplicate extender managed resource name"))
            managed.add(name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        words = f"found {binders} extenders implementing bind"
        found.wrong(invalid("extenders", words, "only one extender can implement bind"))


def _check_resource(name: str, path: str, found: Findings) -> None:
    mistakes = label_key(name)
    found.wrong(*(invalid(path, name, words) for words in mistakes))
    if not mistakes and not is_extended(name):
        found.wrong(invalid(path, name, "is an invalid extended resource name"))


def _check_election(election: LeaderElectionConfiguration, found: Findings) -> None:
    lengths = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, seconds in lengths.items():
        if seconds <= 0:
            words = "must be greater than zero"
            found.wrong(invalid(f"leaderElection.{name}", _go(seconds), words))
    if election.lease_duration <= election.renew_deadline:
        words = "must be greater than `RenewDeadline`"
        found.wrong(invalid("leaderElection.leaseDuration", _go(election.renew_deadline), words))
    elif 0 < election.renew_deadline <= election.retry_period * JITTER:
        words = "renewDeadline must be greater than retryPeriod*JitterFactor"
        found.wrong(invalid("leaderElection.renewDeadline", _go(election.renew_deadline), words))
    for name, text in (
        ("resourceNamespace", election.resource_namespace),
        ("resourceName", election.resource_name),
    ):
        if not text:
            found.wrong(required(f"leaderElection.{name}"))
    if election.resource_lock != "leases":
        words = 'resourceLock value must be "leases"'
        found.wrong(invalid("leaderElection.resourceLock", election.resource_lock, words))


def _go(seconds: float) -> str:
    return format_nanoseconds(round(seconds * SECOND))
