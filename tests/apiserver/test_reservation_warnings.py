"""Warnings about parts of a valid Reservation that have no effect."""

import pytest

from holdfast.testing import a_reservation

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
