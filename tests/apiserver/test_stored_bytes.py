"""A data directory of an earlier build can be read, and stored bytes do not change.

``recorded/store.tar.xz`` contains a data directory with one object of every kind at that time. This
build must open it, return every object unchanged, and store the same bytes for the same requests.
Only the CRDs that Holdfast ships change: they are those of this build; and a role that has got more
rules since.
``--record`` writes the archive only if it does not exist.
"""

import io
import re
import sqlite3
import tarfile
from pathlib import Path

import pytest

from apiserver.recorded_kinds import GADGETS, read_kinds
from apiserver.recorded_lifecycle import MARKED, renamed, with_label
from apiserver.recorder import Recorder
from apiserver.server_fixture import start_server
from apiserver.widgets import CRDS
from holdfast.server.access.bootstrap_roles import ROLES
from holdfast.server.schema.structural import shipped_crds
from holdfast.testing import VirtualClock

RECORDED = Path(__file__).parent / "recorded"
ARCHIVE = RECORDED / "store.tar.xz"
SHOWN = RECORDED / "store.shown"
DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions", "")
CLUSTER_ROLES = ("rbac.authorization.k8s.io", "clusterroles", "")
SHIPPED = {
    *((*DEFINITIONS, crd["metadata"]["name"]) for crd in shipped_crds()),
    *((*CLUSTER_ROLES, role["metadata"]["name"]) for role in ROLES),
}
"""Objects that a newer build changes at its start."""
OWN = re.compile(rb'"(uid|resourceVersion)":"[^"]*"')


async def write_all(directory):
    """Store one object of every kind."""
    async with start_server(directory, clock=VirtualClock()) as api:
        await api.create(CRDS, GADGETS)
        stored = set()
        for kind in await read_kinds(api):
            if kind.group == "resource.k8s.io" and kind.plural in stored:
                continue  # v1, in another version
            stored.add(kind.plural)
            sample = with_label(kind.sample)
            if kind.group == GADGETS["spec"]["group"]:  # two versions of one stored kind
                sample = renamed(sample, f"sample-{kind.version}")
            if kind.plural == "reservations":  # its owners named no namespace then
                selector = {"labelSelector": sample["spec"]["owners"][0]["labelSelector"]}
                sample = {**sample, "spec": {**sample["spec"], "owners": [selector]}}
            await api.create(kind.path(), sample)


def stored_values(directory):
    """Return the bytes of every stored object by key, without uid and resourceVersion."""
    query = "SELECT grp, resource, ns, name, val FROM obj JOIN res ON res = id"
    database = sqlite3.connect(directory / "store" / "store.db")
    try:
        return {tuple(key): OWN.sub(b"", value) for *key, value in database.execute(query)}
    finally:
        database.close()


def pack(directory):
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        for name in ("store.db", "store.revision"):
            content = (directory / "store" / name).read_bytes()
            entry = tarfile.TarInfo(f"store/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


@pytest.fixture
async def earlier(tmp_path, request):
    """Extract the recorded data directory."""
    if request.config.getoption("--record") and not ARCHIVE.exists():
        await write_all(tmp_path / "new")
        pack(tmp_path / "new")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path / "earlier", filter="data")
    return tmp_path / "earlier"


def without_shipped(values):
    return {key: value for key, value in values.items() if key not in SHIPPED}


async def test_the_same_requests_write_the_same_bytes(tmp_path, earlier):
    await write_all(tmp_path)
    now, before = stored_values(tmp_path), without_shipped(stored_values(earlier))
    assert {key: now.get(key) for key in before} == before


async def test_objects_of_an_earlier_build_are_returned_unchanged(earlier, request):
    before = without_shipped(stored_values(earlier))
    clock = VirtualClock()
    async with start_server(earlier, clock=clock) as api:
        to = Recorder(api, clock.now())
        for kind in await read_kinds(api):
            if (await api.call("GET", kind.path(""), **MARKED)).json["items"]:
                await to.ask(kind.plural, "GET", kind.path(""), **MARKED)
    after = stored_values(earlier)  # and the roles that this build adds
    assert {key: after.get(key) for key in before} == before
    if request.config.getoption("--record"):
        SHOWN.write_text(to.text)
    assert to.text == SHOWN.read_text()


POLICIES = "resourcepolicies.scheduling.sigs.x-k8s.io"
NOTE = "holdfast.dev/shipped-generation"


async def definition(directory, patch=None):
    """Return the spec and metadata of our CRD; change it first if there is a patch."""
    async with start_server(directory, clock=VirtualClock()) as api:
        if patch is not None:
            merge = {"content-type": "application/merge-patch+json"}
            done = await api.call("PATCH", f"{CRDS}/{POLICIES}", patch, headers=merge)
            assert done.status == 200, done.json
        found = (await api.call("GET", f"{CRDS}/{POLICIES}")).json
    return found["spec"], found["metadata"]


async def test_the_definitions_of_an_earlier_build_become_those_of_this_one(tmp_path, earlier):
    fresh, _ = await definition(tmp_path / "new")
    spec, meta = await definition(earlier)
    assert (spec, meta["generation"], meta["annotations"]) == (fresh, 2, {NOTE: "2"})
    again, unchanged = await definition(earlier)
    assert (again, unchanged["resourceVersion"]) == (fresh, meta["resourceVersion"])


async def test_a_definition_that_a_client_changed_stays(earlier):
    names = {"spec": {"names": {"shortNames": ["rsp", "policy"]}}}
    await definition(earlier, names)
    spec, meta = await definition(earlier)
    assert (spec["names"]["shortNames"], meta["generation"]) == (["rsp", "policy"], 3)


ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kube-scheduler"
COSTS = {
    "verbs": ["delete", "patch", "get", "list", "watch"],
    "apiGroups": [""],
    "resources": ["pods"],
}


async def role(directory):
    """Return the stored role of schedulers after a start."""
    async with start_server(directory, clock=VirtualClock()) as api:
        return (await api.call("GET", ROLE)).json


async def test_a_role_of_an_earlier_build_gets_the_rules_it_lacks_once(earlier):
    first = await role(earlier)
    assert COSTS in first["rules"]
    assert await role(earlier) == first


async def test_a_role_that_must_stay_is_not_changed(earlier):
    keep = {
        "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}},
        "rules": [],
    }
    merge = {"content-type": "application/merge-patch+json"}
    async with start_server(earlier, clock=VirtualClock()) as api:
        assert (await api.call("PATCH", ROLE, keep, headers=merge)).status == 200
    assert not (await role(earlier)).get("rules")
