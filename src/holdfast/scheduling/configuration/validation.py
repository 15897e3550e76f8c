"""Validate the fields outside of profiles, with upstream's messages and order."""

from __future__ import annotations

from holdfast.api.durations import SECOND, format_nanoseconds
from holdfast.api.field_errors import invalid, required
from holdfast.api.names import label_key
from holdfast.api.resource_names import is_extended
from holdfast.scheduling.configuration.document import (
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
)
from holdfast.scheduling.configuration.problems import Problems
from holdfast.scheduling.framework.extender import ExtenderConfig

JITTER = 1.2
"""client-go's factor by which a retry may be later than retryPeriod."""


def check_process(document: KubeSchedulerConfiguration, problems: Problems) -> None:
    """Check the client connection, leader election and parallelism."""
    burst = document.client_connection.burst
    if burst < 0:
        problems.add_errors(invalid("clientConnection.burst", burst, "must be non-negative"))
    if document.leader_election.leader_elect:
        check_election(document.leader_election, problems)
    if document.parallelism <= 0:
        message = "should be an integer value greater than zero"
        problems.add_errors(invalid("parallelism", document.parallelism, message))


def check_queue(document: KubeSchedulerConfiguration, problems: Problems) -> None:
    """Check the percentage of nodes to score and the backoff of pods."""
    check_percentage("percentageOfNodesToScore", document.percentage_of_nodes_to_score, problems)
    first, most = document.pod_initial_backoff_seconds, document.pod_max_backoff_seconds
    if first <= 0:
        problems.add_errors(invalid("podInitialBackoffSeconds", first, "must be greater than 0"))
    if most < first:
        message = "must be greater than or equal to PodInitialBackoffSeconds"
        problems.add_errors(invalid("podMaxBackoffSeconds", most, message))


def check_percentage(path: str, percentage: int | None, problems: Problems) -> None:
    """Check a percentage of nodes."""
    if percentage is not None and not 0 <= percentage <= 100:
        problems.add_errors(invalid(path, percentage, "not in valid range [0-100]"))


def check_extenders(extenders: tuple[ExtenderConfig, ...], problems: Problems) -> None:
    """Check each extender, and that only one of them binds."""
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            message = "must have a positive weight applied to it"
            problems.add_errors(invalid(f"{path}.weight", extender.weight, message))
        for j, resource in enumerate(extender.managed_resources):
            name, at = resource.name, f"{path}.managedResources[{j}].name"
            _check_resource(name, at, problems)
            if name in managed:
                problems.add_errors(invalid(at, name, "duplicate extender managed resource name"))
            managed.add(name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        message = f"found {binders} extenders implementing bind"
        problems.add_errors(invalid("extenders", message, "only one extender can implement bind"))


def _check_resource(name: str, path: str, problems: Problems) -> None:
    mistakes = label_key(name)
    problems.add_errors(*(invalid(path, name, message) for message in mistakes))
    if not mistakes and not is_extended(name):
        problems.add_errors(invalid(path, name, "is an invalid extended resource name"))


def check_election(election: LeaderElectionConfiguration, problems: Problems) -> None:
    """Check the periods and the lease of a leader election."""
    lengths = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, seconds in lengths.items():
        if seconds <= 0:
            message = "must be greater than zero"
            problems.add_errors(invalid(f"leaderElection.{name}", _go(seconds), message))
    if election.lease_duration <= election.renew_deadline:
        message = "must be greater than `RenewDeadline`"
        problems.add_errors(
            invalid("leaderElection.leaseDuration", _go(election.renew_deadline), message)
        )
    elif 0 < election.renew_deadline <= election.retry_period * JITTER:
        message = "renewDeadline must be greater than retryPeriod*JitterFactor"
        problems.add_errors(
            invalid("leaderElection.renewDeadline", _go(election.renew_deadline), message)
        )
    for name, text in (
        ("resourceNamespace", election.resource_namespace),
        ("resourceName", election.resource_name),
    ):
        if not text:
            problems.add_errors(required(f"leaderElection.{name}"))
    if election.resource_lock != "leases":
        message = 'resourceLock value must be "leases"'
        problems.add_errors(invalid("leaderElection.resourceLock", election.resource_lock, message))


def _go(seconds: float) -> str:
    return format_nanoseconds(round(seconds * SECOND))
