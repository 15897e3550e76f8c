"""A configuration as it came to be, defaults and merging done: what /configz shows."""

from __future__ import annotations

from typing import Any

from holdfast.configuration.document import API_VERSION, GROUP, KIND
from holdfast.configuration.reading import Configuration
from holdfast.engine.profile import Profile


def effective(configuration: Configuration) -> dict[str, Any]:
    """Write out what holds; nothing secret is among it."""
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
