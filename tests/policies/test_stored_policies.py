"""Policies that an earlier build stored before they were checked: none stops a component.

``stored_policies.tar.xz`` is a data directory that the build before the checks wrote: namespace
`web` with one policy for each thing that it accepted, and that has its name as value of `app`.
"""

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from apiserver.direct_store import store_directly
from apiserver.mutants import WRONG, mutants
from holdfast.api.scheme import RESOURCE_POLICIES
from holdfast.runtime.errors import Invalid
from holdfast.server.store import ObjectKey
from holdfast.testing import a_namespace, a_resource_policy
from holdfast.testing.harness import Harness
from policies.objects import WEB, common_nodes, od, place, pod, policy, spot
from policies.policy_objects import LARGEST
from soak_size import some_of

ARCHIVE = Path(__file__).parent / "stored_policies.tar.xz"
USED = "the policy is used, but: "
FOLLOWED = {
    "sound": "the policy can be used",
    "float-count": "the policy can be used",
    "many-labels": "the policy can be used",
    "duplicate-names": f'{USED}spec.units[1].name: Duplicate value: "od"',
    "key-in-selector": f'{USED}spec.matchLabelKeys[0]: Invalid value: "app": may not be in podSel',
    "negative-amount": f"{USED}spec.units[0].maxResources[cpu]: Invalid value: -1: must be greater",
    "unknown-resource": f'{USED}spec.units[0].maxResources[cpus]: Invalid value: "cpus": must be a',
    "other-timeout": f"{USED}spec.whenTryNextUnits.timeout: Forbidden: may not be specified unless",
    "spaces-in-names": f'{USED}[spec.units[0].name: Invalid value: "on demand\\n": a valid label',
}
NOT_FOLLOWED = {
    "written-selector": 'spec.units[0].podLabels: Forbidden: "app" may not be in podSelector',
    "wrong-selector": 'spec.podSelector: key: Invalid value: "a b"',
    "wrong-node-selector": 'spec.units[0].nodeSelector: values[0][tier]: Invalid value: "not',
    "wrong-label": 'spec.units[0].podLabels: Invalid value: "a b"',
    "wrong-annotation": 'spec.units[0].podAnnotations: Invalid value: "a b"',
    "huge-amount": 'spec.units[0].maxResources[cpu]: Invalid value: "1e400"',
    "endless-timeout": 'spec.whenTryNextUnits.timeout: Invalid value: "99999999999h"',
}


@pytest.fixture
async def earlier(tmp_path):
    """A cluster on the data directory of the earlier build, with the five nodes."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    async with Harness(tmp_path / "store") as cluster:
        await cluster.create(*common_nodes()[1:])
        yield cluster


async def ready(cluster, name):
    """Return status and message of a policy's Ready condition."""
    found = (await cluster.client.get(RESOURCE_POLICIES, name, WEB)).status.conditions
    return next((c.status, c.message) for c in found if c.type == "Ready")


async def test_the_condition_of_each_stored_policy_tells_whether_it_is_followed(earlier):
    stored = {obj.name for obj in (await earlier.client.list(RESOURCE_POLICIES, WEB)).items}
    assert stored == {*FOLLOWED, *NOT_FOLLOWED}
    for name, text in FOLLOWED.items():
        status, message = await ready(earlier, name)
        assert message.startswith(text), message
        assert status == ("True" if text == "the policy can be used" else "False")
    for name, text in NOT_FOLLOWED.items():
        status, message = await ready(earlier, name)
        assert (status, text in message) == ("False", True), message


async def test_pods_are_scheduled_beside_every_stored_policy(earlier):
    for name in (*FOLLOWED, *NOT_FOLLOWED):
        await place(earlier, 1, prefix=name, app=name)
        assert await earlier.node_of(f"{name}0", WEB), await earlier.why(f"{name}0", WEB)
    for name in ("sound", "float-count", "duplicate-names", "key-in-selector", "other-timeout"):
        assert await place(earlier, 2, prefix=f"{name}-", app=name) == ["a", "b"], name
    assert await place(earlier, 1, prefix="plain", app="no-policy") != [""]


async def test_a_stored_policy_can_be_labelled_repaired_and_deleted(earlier):
    client = earlier.client
    for name in (*FOLLOWED, *NOT_FOLLOWED):
        await client.patch(RESOURCE_POLICIES, name, {"metadata": {"labels": {"seen": "yes"}}}, WEB)
    units = [{**od(), "maxCount": 3}, {**spot(), "name": "od"}]
    with pytest.raises(Invalid, match=r'spec.units: .*every name must be unique, "od" is not'):
        await client.patch(RESOURCE_POLICIES, "duplicate-names", {"spec": {"units": units}}, WEB)
    repaired = {"spec": {"units": policy()["spec"]["units"]}}
    for name in ("duplicate-names", "written-selector", "spaces-in-names"):
        await client.patch(RESOURCE_POLICIES, name, repaired, WEB)
        await earlier.settle()
        assert await ready(earlier, name) == ("True", "the policy can be used")
    for name in (*FOLLOWED, *NOT_FOLLOWED):
        await client.delete(RESOURCE_POLICIES, name, WEB)
    await earlier.settle()
    assert await place(earlier, 1, app="sound") != [""]


async def usage(cluster, name):
    await cluster.advance(60)
    return (await cluster.client.get(RESOURCE_POLICIES, name, WEB)).status.usage


async def test_a_status_of_an_earlier_build_is_replaced(earlier):
    assert await usage(earlier, "sound") == "od 0/2, spot 0/3"
    raw = await earlier.client.get(replace(RESOURCE_POLICIES, type=dict), "sound", WEB)
    status = raw["status"]
    assert {"lastUpdateTime", "pods"}.isdisjoint(status)
    assert status["units"][0] == {"name": "od", "nodes": 2, "pods": 0, "maxCount": 2}


FULL = a_resource_policy(
    "m",
    namespace=WEB,
    pods={"app": "mutant"},
    match_label_keys=["k"],
    strategy="prefer",
    units=[
        od(
            max_resources={"cpu": "9", "example.com/gpu": 1},
            pod_labels={"unit": "od"},
            pod_annotations={"example.com/unit": "od"},
        ),
        spot(),
    ],
    match_policy={"ignoreTerminatingPod": True, "ignorePreviousPod": True},
    when_try_next_units="TimeoutOrExceedMax",
    timeout="1m",
    preempt_policy="BeforeNextUnit",
    status={
        "observedGeneration": 1,
        "usage": "od 1/2",
        "headroom": "1",
        "units": [
            {
                "name": "od",
                "nodes": 1,
                "pods": 1,
                "maxCount": 2,
                "resources": {"cpu": "1"},
                "maxResources": {"cpu": "9"},
                "groups": [{"labels": {"k": "v"}, "pods": 1}],
            }
        ],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": None}],
    },
)


def stored_mutants():
    """Yield policies of which one field is wrong, each in a namespace of its own."""
    for number, (_, made) in some_of(enumerate(mutants(FULL, WRONG, each=1)), 3):
        namespace = f"m{number}"
        if isinstance(meta := made.get("metadata"), dict) and meta.get("namespace") == WEB:
            meta["namespace"] = namespace
        yield ObjectKey(RESOURCE_POLICIES.group, RESOURCE_POLICIES.plural, namespace, "m"), made


@pytest.mark.long
async def test_policies_with_any_wrong_field_stop_no_component(tmp_path):
    async with Harness(tmp_path) as cluster:
        await cluster.create(*common_nodes(cpu="1000", pods="1000"))
    found = list(stored_mutants())
    await store_directly(tmp_path, *found)
    namespaces = [key.namespace for key, _ in found]
    async with Harness(tmp_path) as cluster:
        await cluster.create(policy(), *map(a_namespace, namespaces))
        await cluster.create(*(pod("w", namespace=ns, app="mutant") for ns in namespaces))
        await cluster.advance(120)
        assert await place(cluster, 3) == ["a", "a", "b"]
        assert await usage(cluster, "p") == "od 2/2, spot 1/3"
        assert cluster.failures == []
        for ns in namespaces:
            message = await cluster.why("w", ns)
            assert await cluster.node_of("w", ns) or "ResourcePolicy" in message, (ns, message)


async def test_the_largest_policy_is_followed(start):
    cluster = await start()
    await cluster.create({**LARGEST, "metadata": {"name": "largest", "namespace": WEB}})
    assert (await ready(cluster, "largest"))[0] == "True"
    labels = LARGEST["spec"]["podSelector"]["matchLabels"]
    selected = {e["key"]: "v0" for e in LARGEST["spec"]["podSelector"]["matchExpressions"]}
    await cluster.create(pod("w", labels={**labels, **selected}))
    assert "node matches no unit of ResourcePolicy web/largest" in await cluster.why("w", WEB)
