"""Warnings about parts of a valid Reservation that have no effect."""

from holdfast.testing import a_reservation

RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
MERGE = {"content-type": "application/merge-patch+json"}


async def warned(api, method, path, body, **options):
    answer = await api.call(method, path, body, **options)
    assert answer.status in (200, 201), answer.json
    return answer.headers.get("warning", "")


async def test_an_unknown_field_of_the_template_is_warned_of(api):
    raw = a_reservation("r")
    raw["spec"]["template"]["spec"]["contaners"] = []
    said = await warned(api, "POST", RESERVATIONS, raw)
    assert said == r'299 - "unknown field \"spec.template.spec.contaners\""'


async def test_an_edit_without_effect_is_warned_of(api):
    assert await warned(api, "POST", RESERVATIONS, a_reservation("r")) == ""
    placed = {"status": {"phase": "Available", "nodeName": "n1"}}
    path = f"{RESERVATIONS}/r"
    assert await warned(api, "PATCH", f"{path}/status", placed, headers=MERGE) == ""
    moved = {"spec": {"template": {"spec": {"nodeName": "n2"}}}}
    said = await warned(api, "PATCH", path, moved, headers=MERGE)
    assert "spec.template.spec.nodeName: the reservation stays on n1" in said
    assert (
        await warned(api, "PATCH", path, {"metadata": {"labels": {"a": "b"}}}, headers=MERGE) == ""
    )
