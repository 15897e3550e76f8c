"""Every served kind with the real kubectl: create, apply, edit, patch, replace, delete.

Each command gets all objects at once, because one kubectl call per kind would take minutes.
"""

import json
import re

import pytest

from apiserver import every_kind
from apiserver.widgets import CRDS
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.kinds import BUILT_IN
from holdfast.server.verbs.patching import merge_patch

CUSTOM_GROUPS = {
    "dra.holdfast.dev",
    "example.com",
    "scheduling.koordinator.sh",
    "scheduling.sigs.x-k8s.io",
    "topology.node.k8s.io",
}
DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def labelled(obj, step):
    return merge_patch(obj, {"metadata": {"labels": {"step": step}}})


def is_custom(obj):
    """Return whether the kind has a structural schema, and so no strategic merge."""
    return obj["apiVersion"].partition("/")[0] in {*CUSTOM_GROUPS, "core.k8s.io"}


def listing(objects):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@pytest.fixture
async def kubectl(api):
    """Run kubectl with a list of objects."""
    await api.create(CRDS, every_kind.WIDGETS)

    async def run(verb, objects, *args, code=0):
        """Run a command, check its exit code and return its output."""
        done = await api.kubectl(verb, *args, "-f", "-", stdin=listing(objects))
        assert done.code == code, done.err
        assert "rror" not in done.err, done.err
        return done.out

    return run


def said(out, word):
    """Count the objects with a result word, such as ``configured``, in the output of kubectl."""
    return len(re.findall(rf'^(\S+/\S+|\S+ "\S+") {word}\b', out, re.M))


def _is_on(feature):
    return feature is None or FeatureGates().enabled(feature)


def test_there_is_a_sample_of_every_kind_that_can_be_stored():
    sampled = {(o["apiVersion"], o["kind"]) for o in every_kind.objects()}
    served = {
        (s.resource.api_version, s.resource.kind)
        for s in BUILT_IN
        if "list" in s.resource.verbs and not s.deprecation and _is_on(s.feature)
    }
    assert served - sampled == {DEFINITION}
    assert {api_version.partition("/")[0] for api_version, _ in sampled - served} == CUSTOM_GROUPS


@pytest.mark.long
@pytest.mark.kubectl
async def test_every_kind_is_applied_changed_and_applied_again(kubectl, api):
    first = [labelled(o, "first") for o in every_kind.objects()]
    everything = len(first)
    assert said(await kubectl("apply", first), "created") == everything
    changed = [
        labelled(merge_patch(o, change), "changed")
        for o, change in zip(first, every_kind.changes(), strict=True)
    ]
    before = api.store.revision
    shown = await kubectl("diff", changed, code=1)
    assert len(re.findall(r"^\+ +step: changed$", shown, re.M)) == everything
    assert api.store.revision == before, "a diff changes nothing"
    assert said(await kubectl("apply", changed), "configured") == everything
    before = api.store.revision
    again = await kubectl("apply", changed)
    # "configured" for lists with defaults: a patch is sent, but nothing changes.
    assert said(again, "unchanged") + said(again, "configured") == everything
    assert api.store.revision == before
    assert said(await kubectl("delete", changed, "--wait=false"), "deleted") == everything


@pytest.mark.long
@pytest.mark.kubectl
async def test_every_kind_is_edited_patched_replaced_and_deleted(kubectl, api, monkeypatch):
    first = [labelled(o, "first") for o in every_kind.objects()]
    everything = len(first)
    assert said(await kubectl("create", first), "created") == everything
    monkeypatch.setenv("KUBE_EDITOR", "sed -i 's/step: first/step: edited/'")
    assert said(await kubectl("edit", first), "edited") == everything
    for form in ("merge", "json", "strategic"):
        patch = {"metadata": {"labels": {"step": form}}}
        if form == "json":
            patch = [{"op": "replace", "path": "/metadata/labels/step", "value": form}]
        patched = [o for o in first if form != "strategic" or not is_custom(o)]
        out = await kubectl("patch", patched, "--type", form, "-p", json.dumps(patch))
        assert said(out, "patched") == len(patched)
    replaced = [labelled(o, "replaced") for o in first]
    assert said(await kubectl("replace", replaced), "replaced") == everything
    shown = await kubectl("get", first, "-o", "jsonpath={.items[*].metadata.labels.step}")
    assert shown.split() == ["replaced"] * everything
    assert said(await kubectl("delete", first, "--wait=false"), "deleted") == everything


@pytest.mark.kubectl
async def test_a_strategic_merge_patch_of_a_custom_resource_is_rejected(kubectl, api):
    widget = next(o for o in every_kind.objects() if o["kind"] == "Widget")
    await kubectl("create", [widget])
    refused = await api.kubectl(
        "patch", "widget", "sample", "--type", "strategic", "-p", '{"spec": {"size": 2}}'
    )
    assert refused.code == 1
    assert (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    ) in refused.err


@pytest.mark.kubectl
async def test_definitions_are_applied_changed_edited_patched_and_replaced(api, monkeypatch):
    definition = {"apiVersion": DEFINITION[0], "kind": DEFINITION[1], **every_kind.WIDGETS}

    async def run(*args, step, **options):
        done = await api.kubectl(*args, stdin=json.dumps(labelled(definition, step)))
        assert done.code == options.get("code", 0), done.err
        return done.out

    assert said(await run("apply", "-f", "-", step="first"), "created")
    assert "step: changed" in await run("diff", "-f", "-", step="changed", code=1)
    assert said(await run("apply", "-f", "-", step="changed"), "configured")
    assert said(await run("apply", "-f", "-", step="changed"), "unchanged")
    monkeypatch.setenv("KUBE_EDITOR", "sed -i 's/step: changed/step: edited/'")
    assert said(await run("edit", "-f", "-", step=""), "edited")
    for form in ("strategic", "merge"):
        change = json.dumps({"metadata": {"labels": {"step": form}}})
        assert said(await run("patch", "-f", "-", "--type", form, "-p", change, step=""), "patched")
    assert said(await run("replace", "-f", "-", step="replaced"), "replaced")
    assert said(await run("delete", "-f", "-", "--wait=false", step=""), "deleted")
