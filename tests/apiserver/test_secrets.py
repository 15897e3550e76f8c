"""stringData of Secrets becomes data; immutable Secrets and ConfigMaps cannot change."""

import base64

import pytest

MERGE = {"content-type": "application/merge-patch+json"}
SECRETS = "/api/v1/namespaces/default/secrets"


def coded(text):
    return base64.b64encode(text.encode()).decode()


def secret(**more):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **more}


async def test_string_data_overrides_data(api):
    data = {"a": coded("old"), "b": coded("kept")}
    made = await api.create(SECRETS, secret(data=data, stringData={"a": "né\n", "c": None}))
    assert made["data"] == {"a": coded("né\n"), "b": coded("kept"), "c": ""}
    assert "stringData" not in made
    assert (await api.call("GET", f"{SECRETS}/s")).json == made


@pytest.mark.parametrize("media", ["merge-patch", "strategic-merge-patch"])
async def test_a_patch_of_string_data_changes_data(api, media):
    await api.create(SECRETS, secret(data={"a": coded("old")}))
    patch = {"stringData": {"a": "new"}}
    headers = {"content-type": f"application/{media}+json"}
    patched = await api.call("PATCH", f"{SECRETS}/s", patch, headers=headers)
    assert patched.json["data"] == {"a": coded("new")}


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
async def test_immutable_data_cannot_change(api, kind):
    path = f"/api/v1/namespaces/default/{kind.lower()}s"
    await api.create(path, secret(kind=kind, data={"a": "b2xk"}, immutable=True))
    changes = [{"data": {"a": "bmV3"}}, {"data": None}, {"immutable": None}, {"immutable": False},
               {"binaryData" if kind == "ConfigMap" else "stringData": {"a": "bmV3"}}]  # fmt: skip
    for change in changes:
        answer = await api.call("PATCH", f"{path}/s", change, headers=MERGE)
        words = "Forbidden: field is immutable when `immutable` is set"
        assert (answer.status, words in answer.json["message"]) == (422, True), change
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert (await api.call("PATCH", f"{path}/s", labels, headers=MERGE)).status == 200


async def test_the_type_cannot_change(api):
    await api.create(SECRETS, secret())
    change = {"type": "example.com/other"}
    assert (await api.call("PATCH", f"{SECRETS}/s", change, headers=MERGE)).status == 422
