"""Warnings about parts of a valid Reservation that have no effect."""

import pytest

from holdfast.testing import a_node, a_pod, a_reservation

RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
OWNERS = [{"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": "r"}}}]
LIMIT = "scheduling.holdfast.dev/owner-namespaces"
MERGE = {"content-type": "application/merge-patch+json"}


async def warned(api, method, path, body, **options):
    answer = await api.call(method, path, body, **options)
    assert answer.status in (200, 201), answer.json
    return answer.headers.get("warning", "")


async def test_an_unknown_field_of_the_template_is_warned_of(api):
    raw = a_reservation("r", owners=OWNERS)
    raw["spec"]["template"]["spec"]["contaners"] = []
    said = await warned(api, "POST", RESERVATIONS, raw)
    assert said == r'299 - "unknown field \"spec.template.spec.contaners\""'


async def test_an_edit_without_effect_is_warned_of(api):
    assert await warned(api, "POST", RESERVATIONS, a_reservation("r", owners=OWNERS)) == ""
    placed = {"status": {"phase": "Available", "nodeName": "n1"}}
    path = f"{RESERVATIONS}/r"
    assert await warned(api, "PATCH", f"{path}/status", placed, headers=MERGE) == ""
    moved = {"spec": {"template": {"spec": {"nodeName": "n2"}}}}
    said = await warned(api, "PATCH", path, moved, headers=MERGE)
    assert "spec.template.spec.nodeName: the reservation stays on n1" in said
    assert (
        await warned(api, "PATCH", path, {"metadata": {"labels": {"a": "b"}}}, headers=MERGE) == ""
    )


@pytest.mark.parametrize(
    "owner",
    [
        {"labelSelector": {"matchLabels": {"app": "web"}}},
        {"labelSelector": {}},
        {"object": {}},
        {"object": {"name": "p"}},
        {"controller": {"name": "web"}},
        {"controller": {"uid": "anyone can write it into an owner reference"}},
    ],
)
async def test_owners_of_every_namespace_are_warned_of(api, owner):
    said = await warned(api, "POST", RESERVATIONS, a_reservation("r", owners=[*OWNERS, owner]))
    assert "spec.owners[1]: matches pods of every namespace" in said
    assert f"the annotation {LIMIT} (which koord-scheduler ignores)" in said
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert await warned(api, "PATCH", f"{RESERVATIONS}/r", labels, headers=MERGE) == "", "once"
    limited = {"metadata": {"annotations": {LIMIT: "team-a,team-b"}}}
    assert await warned(api, "PATCH", f"{RESERVATIONS}/r", limited, headers=MERGE) == ""
    opened = {"metadata": {"annotations": {LIMIT: None}}}
    said = await warned(api, "PATCH", f"{RESERVATIONS}/r", opened, headers=MERGE)
    assert "matches pods of every namespace" in said


@pytest.mark.parametrize(
    "owner",
    [
        {"object": {"uid": "u"}},
        {"object": {"name": "n", "namespace": "a"}},
        {"controller": {"uid": "u", "namespace": "a"}},
    ],
)
async def test_owners_of_one_namespace_are_not_warned_of(api, owner):
    raw = a_reservation("r", owners=[owner])
    assert await warned(api, "POST", RESERVATIONS, raw) == ""


@pytest.mark.parametrize("text", ["", "a,", "team_a", "*"])
async def test_a_list_of_namespaces_that_cannot_be_read_is_warned_of(api, text):
    raw = a_reservation("r", owners=[{"object": {}}], annotations={LIMIT: text})
    said = await warned(api, "POST", RESERVATIONS, raw)
    assert f"metadata.annotations[{LIMIT}]: " in said
    assert "no pod is an owner; list namespaces separated by commas" in said


@pytest.mark.parametrize(("kind", "between"), [("Deployment", "ReplicaSet"), ("CronJob", "Job")])
async def test_a_controller_that_is_that_of_no_pod_is_warned_of(api, kind, between):
    owner = {"controller": {"kind": kind, "name": "web", "namespace": "default"}}
    said = await warned(api, "POST", RESERVATIONS, a_reservation("r", owners=[owner]))
    assert "spec.owners[0].controller.kind: matches no pod" in said
    assert f"is its {between}; use labelSelector" in said
    fits = {"controller": {"kind": "ReplicaSet", "name": "web-1", "namespace": "default"}}
    assert await warned(api, "POST", RESERVATIONS, a_reservation("s", owners=[fits])) == ""


async def test_a_template_namespace_that_does_not_exist_is_warned_of(api):
    raw = a_reservation("r", owners=OWNERS)
    raw["spec"]["template"]["metadata"] = {"namespace": "nowhere"}
    said = await warned(api, "POST", RESERVATIONS, raw)
    assert r"spec.template.metadata.namespace: namespace \"nowhere\" does not exist" in said
    raw["metadata"]["name"] = "s"
    raw["spec"]["template"]["metadata"] = {"namespace": "kube-system"}
    assert await warned(api, "POST", RESERVATIONS, raw) == ""
    for namespace, words in (("gone", "does not exist"), ("default", "")):
        change = {"spec": {"template": {"metadata": {"namespace": namespace}}}}
        said = await warned(api, "PATCH", f"{RESERVATIONS}/s", change, headers=MERGE)
        assert (words in said) if words else said == ""


@pytest.mark.parametrize(("amount", "words"), [
    ("1", ""), ("1999m", ""), ("2", "cpu 2 inside a reservation of 2 leaves nothing"),
    ("3", "cpu 3 inside a reservation of 2 leaves nothing for owners"),
])  # fmt: skip
async def test_an_inner_reservation_as_large_as_the_outer_one_is_warned_of(api, amount, words):
    raw = a_reservation("r", owners=OWNERS, cpu=2)
    inner = f'{{"resources": {{"cpu": "{amount}"}}}}'
    raw["metadata"]["annotations"] = {"node.koordinator.sh/reservation": inner}
    said = await warned(api, "POST", RESERVATIONS, raw)
    assert (words in said) if words else said == ""


async def test_an_inner_reservation_of_what_is_not_reserved_is_warned_of(api):
    raw = a_reservation("r", owners=OWNERS, cpu=2)
    inner = '{"resources": {"memory": "1Gi"}}'
    raw["metadata"]["annotations"] = {"node.koordinator.sh/reservation": inner}
    said = await warned(api, "POST", RESERVATIONS, raw)
    assert "memory is not reserved, so that nothing of it is kept" in said


AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
PODS = "/api/v1/namespaces/default/pods"


def choosy(affinity):
    return a_pod("p", annotations={AFFINITY: affinity})


async def test_affinity_to_a_reservation_that_is_absent_or_has_ended_is_warned_of(api):
    by_name, by_label = '{"name": "r"}', '{"reservationSelector": {"app": "r"}}'
    dry = {"dryRun": "All"}
    said = await warned(api, "POST", PODS, choosy(by_name), **dry)
    assert r"the pod waits: a reservation \"r\" does not exist" in said
    said = await warned(api, "POST", PODS, choosy(by_label), **dry)
    assert "the pod waits: a reservation that matches does not exist" in said

    raw = a_reservation("r", owners=OWNERS)
    raw["metadata"]["labels"] = {"app": "r"}
    assert await warned(api, "POST", RESERVATIONS, raw) == ""
    for affinity in (by_name, by_label, "{}"):
        assert await warned(api, "POST", PODS, choosy(affinity), **dry) == "", affinity
    for phase in ("Available", "Succeeded", "Failed"):
        status = {"status": {"phase": phase, "nodeName": "n"}}
        await warned(api, "PATCH", f"{RESERVATIONS}/r/status", status, headers=MERGE)
        for affinity in (by_name, by_label, "{}"):
            said = await warned(api, "POST", PODS, choosy(affinity), **dry)
            if phase == "Available":
                assert said == "", affinity
            else:
                words = f"the pod waits: reservation r is {phase}, and serves no further pod"
                assert words in said, affinity


async def test_a_selector_may_mean_labels_of_the_node(api):
    node = a_node("n", labels={"zone": "a"})
    assert (await api.call("POST", "/api/v1/nodes", node)).status == 201
    raw = a_reservation("r", owners=OWNERS)
    assert await warned(api, "POST", RESERVATIONS, raw) == ""
    status = {"status": {"phase": "Available", "nodeName": "n"}}
    await warned(api, "PATCH", f"{RESERVATIONS}/r/status", status, headers=MERGE)
    said = '{"reservationSelector": {"zone": "%s"}}'
    assert await warned(api, "POST", PODS, choosy(said % "a"), dryRun="All") == ""
    assert "does not exist" in await warned(api, "POST", PODS, choosy(said % "b"), dryRun="All")


@pytest.mark.parametrize("text", ["{", "[]", '{"name": 5}', "", " ", "null"])
async def test_a_malformed_affinity_is_no_error(api, text):
    said = await warned(api, "POST", PODS, choosy(text))
    assert "the pod" in said


async def test_a_pod_that_may_be_served_by_a_pod_gets_no_warning(api):
    acts = a_pod("acts", labels={"scheduling.koordinator.sh/operating-mode": "Reservation"})
    assert (await api.call("POST", PODS, acts)).status == 201
    assert await warned(api, "POST", PODS, choosy('{"name": "acts"}')) == ""
