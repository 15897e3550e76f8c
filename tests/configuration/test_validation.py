"""Every error is reported with its field and upstream's message."""

import pytest

from configuration.config_builders import config, mistakes, on, profile
from holdfast.runtime.errors import BadConfiguration, NotBuilt
from holdfast.scheduling.configuration.reading import Configuration, read


def test_everything_is_reported_at_once():
    raw = config(
        {"schedulerName": "a", "percentageOfNodesToScore": 101, "plugins": on("x")},
        profile("a", filter=on("Nope"), args={"InterPodAffinity": {"hardPodAffinityWeight": -1}}),
        parallelism=0,
        percentageOfNodesToScore=-1,
        podInitialBackoffSeconds=0,
        podMaxBackoffSeconds="long",
        unheardOf=1,
        clientConnection={"burst": -1},
    )
    assert mistakes(raw) == [
        'profiles[0].plugins.enabled: unknown field "enabled"',
        'podMaxBackoffSeconds: Invalid value: "long": must be an integer',
        'unheardOf: unknown field "unheardOf"',
        "clientConnection.burst: Invalid value: -1: must be non-negative",
        "parallelism: Invalid value: 0: should be an integer value greater than zero",
        "profiles[0].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        "profiles[1].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: -1: "
        "not in valid range [0, 100]",
        'profiles[1].plugins.filter.enabled[0]: FilterPlugin "Nope" does not exist: '
        "name your own plugin as module:Class",
        'profiles[1].schedulerName: Duplicate value: "a"',
        "percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
    ]


def test_the_message_lists_all_and_the_details_have_each():
    with pytest.raises(BadConfiguration) as refusal:
        read(config(parallelism=0, podInitialBackoffSeconds=0))
    assert str(refusal.value).startswith("[parallelism: Invalid value: 0: ")
    assert [cause.field for cause in refusal.value.details.causes] == [
        "parallelism", "podInitialBackoffSeconds",
    ]  # fmt: skip


def test_unsupported_settings_are_reported_separately():
    with pytest.raises(NotBuilt, match="GangScheduling is not built"):
        read(config(profile(multiPoint=on("GangScheduling"))))
    with pytest.raises(BadConfiguration, match="GangScheduling is not built"):
        read(config(profile(multiPoint=on("GangScheduling")), parallelism=0))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ([], "KubeSchedulerConfiguration: Invalid value: []: must be an object"),
        ("text", 'KubeSchedulerConfiguration: Invalid value: "text": must be an object'),
        ({"kind": "Pod"}, 'kind: Invalid value: "Pod": must be KubeSchedulerConfiguration'),
        (
            config(apiVersion="kubescheduler.config.k8s.io/v1beta3"),
            'apiVersion: Invalid value: "kubescheduler.config.k8s.io/v1beta3": no kind '
            '"KubeSchedulerConfiguration" is registered for this version; write '
            "kubescheduler.config.k8s.io/v1",
        ),
        (config(profiles={}), "profiles: Invalid value: {}: must be a list"),
        (config(3), "profiles[0]: Invalid value: 3: must be an object"),
        (
            config(profile(filter={"enabled": [{"name": 3}]})),
            "profiles[0].plugins.filter.enabled[0].name: Invalid value: 3: must be a string",
        ),
        (config(parallelism=True), "parallelism: Invalid value: true: must be an integer"),
        (
            config(profile(args={"NodeResourcesFit": []})),
            "profiles[0].pluginConfig[0].args: Invalid value: []: must be an object",
        ),
        (
            config(leaderElection={"leaseDuration": 15}),
            'leaderElection.leaseDuration: Invalid value: 15: must be a duration, such as "15s"',
        ),
        (
            config(leaderElection={"leaseDuration": "15"}),
            'leaderElection.leaseDuration: Invalid value: "15": time: missing unit in duration '
            '"15"',
        ),
    ],
)  # fmt: skip
def test_values_of_a_wrong_type_are_reported(raw, words):
    assert words in mistakes(raw)


def test_defaults():
    found = read(config())
    assert sorted(found.profiles) == ["default-scheduler", "koord-scheduler"]
    assert found.backoff == (1.0, 10.0)
    election = found.leader_election
    assert election.leader_elect
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (15, 10, 2)
    assert (election.resource_namespace, election.resource_name) == (
        "kube-system",
        "kube-scheduler",
    )
    assert found.leader_election == Configuration().leader_election
    empty = config(leaderElection={"leaseDuration": "0s", "resourceName": "", "resourceLock": ""})
    assert read(empty).leader_election == election
    assert read(config(None, profiles=None)).backoff == (1.0, 10.0)


def test_process_settings_are_read():
    found = read(
        config(
            podInitialBackoffSeconds=3,
            podMaxBackoffSeconds=60,
            leaderElection={"leaderElect": False, "leaseDuration": "1m30s", "resourceName": "mine"},
            clientConnection={"qps": 20, "burst": 40, "kubeconfig": "/k", "contentType": "x"},
            parallelism=4, percentageOfNodesToScore=30, enableProfiling=False,
            enableContentionProfiling=False, delayCacheUntilActive=True,
        )
    )  # fmt: skip
    assert found.backoff == (3.0, 60.0)
    assert not found.leader_election.leader_elect
    assert found.leader_election.lease_duration == 90
    assert found.leader_election.resource_name == "mine"
    assert (found.client_connection.qps, found.client_connection.burst) == (20, 40)


def test_invalid_leader_election_is_reported():
    def wrong(**fields):
        return [
            errors.removeprefix("leaderElection.")
            for errors in mistakes(config(leaderElection=fields))
        ]

    assert wrong(leaseDuration="5s") == [
        'leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'
    ]
    assert wrong(leaseDuration="-1s", renewDeadline="-2s", retryPeriod="-3s") == [
        'leaseDuration: Invalid value: "-1s": must be greater than zero',
        'renewDeadline: Invalid value: "-2s": must be greater than zero',
        'retryPeriod: Invalid value: "-3s": must be greater than zero',
    ]
    assert wrong(retryPeriod="9s") == [
        'renewDeadline: Invalid value: "10s": renewDeadline must be greater than '
        "retryPeriod*JitterFactor"
    ]
    assert wrong(resourceLock="endpoints") == [
        'resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"'
    ]
    assert wrong(leaderElect=False, leaseDuration="5s", resourceLock="endpoints") == []


def test_invalid_extenders_are_reported():
    both = {"urlPrefix": "http://x", "bindVerb": "bind"}
    raw = config(
        extenders=[
            both | {"prioritizeVerb": "p", "weight": 0},
            both
            | {"managedResources": [{"name": n} for n in ("cpu", "a b", "e.com/x", "e.com/x")]},
        ]
    )
    errors = mistakes(raw)
    assert errors[0] == (
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"
    )
    at = "extenders[1].managedResources"
    assert errors[1] == f'{at}[0].name: Invalid value: "cpu": is an invalid extended resource name'
    assert errors[2].startswith(f'{at}[1].name: Invalid value: "a b": name part must consist of')
    assert (
        errors[3]
        == f'{at}[3].name: Invalid value: "e.com/x": duplicate extender managed resource name'
    )
    assert errors[4] == (
        'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can '
        "implement bind"
    )
