"""The settings of a process in a configuration: leader election and limits of requests."""

from __future__ import annotations

from holdfast.configuration.reading import Configuration
from holdfast.settings import ElectionSettings, RequestLimits


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
