"""The recorded requests of every kind: the lifecycle of an object, verb by verb."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from apiserver.recorder import GENERATED, Recorder
from apiserver.server_fixture import RunningServer

Raw = dict[str, Any]
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
YAML = {"accept": "application/yaml"}
PROTOBUF = {"accept": "application/vnd.kubernetes.protobuf"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
METADATA = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
METADATA_LIST = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
AS_OTHER_USER = {"impersonate-user": "ada"}
DRY = {"dryRun": "All"}
MARK = {"recorded": "yes"}
MARKED = {"labelSelector": "recorded=yes"}
WITH_FINALIZER = {"metadata": {"finalizers": ["example.com/hold"]}}
WITHOUT_FINALIZERS = {"metadata": {"finalizers": None}}
# Every selectable field of any kind, and some that no kind supports.
SELECTABLE = (
    "metadata.name", "metadata.namespace", "spec.nodeName", "spec.restartPolicy",
    "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "spec.unschedulable",
    "spec.clusterIP", "spec.type", "spec.signerName", "spec.driver", "spec.colour", "spec.size",
    "status.phase", "status.podIP", "status.nominatedNodeName", "status.replicas",
    "status.successful", "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
    "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
    "involvedObject.fieldPath", "regarding.kind", "reason", "reportingComponent",
    "reportingController", "source", "type",
)  # fmt: skip
STATUS = {"conditions": [{"type": "Ready", "status": "True", "reason": "Recorded", "message": "m",
                          "lastTransitionTime": "2024-01-01T00:00:00Z"}],
          "phase": "Active", "replicas": 2}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A served kind, a sample object and a valid change of it."""

    group: str
    version: str
    plural: str
    namespaced: bool
    verbs: tuple[str, ...]
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    sample: Raw
    change: Raw

    @property
    def file(self) -> str:
        return ".".join(filter(None, (self.plural, self.group, self.version))) + ".txt"

    def path(self, namespace: str = "default") -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        space = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{space}/{self.plural}"


class Lifecycle:
    """Sends the requests of one kind, in order."""

    def __init__(self, api: RunningServer, clock: Any, kind: Kind) -> None:
        self.api, self.clock, self.kind = api, clock, kind
        self.to = Recorder(api, clock.now())
        self.sample = with_label(kind.sample)
        self.all = kind.path()
        self.one = f"{self.all}/{self.sample['metadata']['name']}"

    async def record(self) -> str:
        """Send all requests; in the end the server is as before."""
        began = (await self.api.call("GET", self.all, **MARKED)).json["metadata"]["resourceVersion"]
        for part in (self.creating, self.reading, self.listing, self.changing, self.patching,
                     lambda: self.watching(began), self.parts, self.every_field,
                     self.deleting):  # fmt: skip
            await part()
            self.clock.skip(60)
        await self.purge(self.one)
        return self.to.text

    async def creating(self) -> None:
        sample, all_, to = self.sample, self.all, self.to
        await to.ask("create, dry run", "POST", all_, sample, **DRY)
        await to.ask("create", "POST", all_, sample)
        await to.ask("create again", "POST", all_, sample)
        other_value = copy.deepcopy(sample)
        other_value["metadata"] = {"generateName": GENERATED, "labels": MARK}
        to.note("\n# create what is wrong, dry run")
        await to.brief("a generated name", "POST", all_, other_value, **DRY)
        await to.brief("no name", "POST", all_, sample | {"metadata": {}}, **DRY)
        await to.brief("a wrong name", "POST", all_, renamed(sample, "Wrong_Name"), **DRY)
        await to.brief("a wrong label", "POST", all_, relabelled(sample, {"a b": "-"}), **DRY)
        await to.brief("another kind", "POST", all_, sample | {"kind": "Other"}, **DRY)
        await to.brief("another version", "POST", all_, sample | {"apiVersion": "v9"}, **DRY)
        await to.brief("no JSON", "POST", all_, b"{")
        await to.brief("nothing", "POST", all_, b"")
        await to.brief("a list", "POST", all_, b"[]")
        await to.brief("a wrong media type", "POST", all_, b"a", {"content-type": "text/csv"})
        await to.brief("a version set", "POST", all_, versioned(sample, "1"), **DRY)
        elsewhere = copy.deepcopy(sample)
        elsewhere["metadata"]["namespace"] = "elsewhere"
        await to.brief("another namespace", "POST", all_, elsewhere, **DRY)
        await to.brief("no such namespace", "POST", self.kind.path("nowhere"), sample, **DRY)
        unknown = sample | {"unknown": 1}
        await to.brief("an unknown field", "POST", all_, renamed(unknown, self.second), **DRY)
        await to.brief("an unknown field, strict", "POST", all_, unknown,
                       fieldValidation="Strict", **DRY)  # fmt: skip
        await to.brief("as a stranger", "POST", all_, sample, AS_OTHER_USER)
        await to.ask("create with a status, dry run", "POST", all_,
                     renamed(sample, self.second) | {"status": STATUS}, **DRY)  # fmt: skip
        for name, lacking in without_each_field(sample):
            await to.brief(f"without {name}", "POST", all_, renamed(lacking, self.second), **DRY)

    @property
    def second(self) -> str:
        """Return the name of a second object."""
        name = self.sample["metadata"]["name"]
        return {"10.0.0.9": "10.0.0.10"}.get(name, name[:-1] + "f")

    async def reading(self) -> None:
        to, one = self.to, self.one
        await to.ask("get", "GET", one)
        await to.ask("get as YAML", "GET", one, None, YAML)
        await to.ask("get as a table", "GET", one, None, TABLE)
        await to.ask("get as metadata", "GET", one, None, METADATA)
        to.note("\n# get in other ways")
        await to.brief("as protobuf", "GET", one, None, PROTOBUF)
        await to.brief("no such object", "GET", f"{self.all}/none")
        await to.brief("as a stranger", "GET", one, None, AS_OTHER_USER)
        await to.brief("a table with objects", "GET", one, None, TABLE, includeObject="Object")
        await to.brief("a table with nonsense", "GET", one, None, TABLE, includeObject="All")
        await to.brief("POST to it", "POST", one, self.sample)
        await to.brief("PUT to all", "PUT", self.all, self.sample)
        await to.brief("PATCH to all", "PATCH", self.all, {}, MERGE)

    async def listing(self) -> None:
        to, kind = self.to, self.kind
        where = kind.path("kube-system")
        await to.ask("create a second", "POST", where, renamed(self.sample, self.second))
        whole = kind.path("")
        await to.ask("list", "GET", whole, **MARKED)
        await to.ask("list as a table", "GET", whole, None, TABLE, **MARKED)
        await to.ask("list as metadata", "GET", whole, None, METADATA_LIST, **MARKED)
        first = await to.ask("list one", "GET", whole, limit="1", **MARKED)
        if token := first.json["metadata"].get("continue"):
            # Only the presence of a continue token is recorded, not its text.
            rest = await self.api.call("GET", whole, limit="1", **MARKED, **{"continue": token})
            names = [item["metadata"]["name"] for item in rest.json["items"]]
            to.note(f"the rest: {rest.status} {names} {sorted(rest.json['metadata'])}")
        to.note("\n# list with selectors")
        await to.brief("of a namespace", "GET", self.all, **MARKED)
        await to.brief("a wrong label", "GET", self.all, labelSelector="a in")
        await to.brief("as a stranger", "GET", self.all, None, AS_OTHER_USER)
        await to.brief("an unknown field", "GET", self.all, fieldSelector="spec.nothing=1")
        for field in SELECTABLE:
            answer = await self.api.call("GET", whole, fieldSelector=f"{field}!=-", **MARKED)
            if answer.status == 200:
                found = await self.values_of(whole, field)
                to.note(f"{field}: {found}")
        await self.purge(f"{where}/{self.second}")

    async def values_of(self, whole: str, field: str) -> str:
        """Return which values a field selector finds."""
        tried = {
            "metadata.name": (self.sample["metadata"]["name"], "none"),
            "metadata.namespace": ("", "default"),
        }.get(field, ("", "0", "false", "default", "Normal", "Pod", "1", "2"))
        found = []
        for value in tried:
            answer = await self.api.call("GET", whole, fieldSelector=f"{field}={value}", **MARKED)
            if count := len(answer.json["items"]):
                found.append(f'"{value}" {count}')
        return ", ".join(found)

    async def watching(self, began: str) -> None:
        query = MARKED | {"resourceVersion": began}
        async with self.api.watch(self.kind.path(""), **query) as events:
            self.to.events("watch", await events.take(4))
        async with self.api.watch(self.kind.path(""), headers=TABLE, **query) as events:
            self.to.events("watch tables", await events.take(1))
        async with self.api.watch(self.kind.path(""), headers=METADATA, **query) as events:
            self.to.events("watch metadata", await events.take(1))

    async def changing(self) -> None:
        to, one = self.to, self.one
        stored = (await self.api.call("GET", one)).json
        await to.ask("update, no change", "PUT", one, stored)
        changed = merged(stored, self.kind.change)
        await to.ask("update, dry run", "PUT", one, changed, **DRY)
        await to.ask("update", "PUT", one, changed)
        to.note("\n# update what is wrong")
        await to.brief("a stale version", "PUT", one, stored)
        await to.brief("no version", "PUT", one, merged(changed, VERSIONLESS), **DRY)
        await to.brief("another name", "PUT", one, renamed(changed, "other"))
        await to.brief("another uid", "PUT", one, merged(changed, {"metadata": {"uid": "x"}}))
        await to.brief("no such object", "PUT", f"{self.all}/none", renamed(changed, "none"))
        await to.brief("the sample", "PUT", one, self.sample, **DRY)

    async def patching(self) -> None:
        to, one = self.to, self.one
        label = {"metadata": {"labels": {"patched": "merge"}, "annotations": {"a": "b"}}}
        await to.ask("merge patch", "PATCH", one, label, MERGE)
        label = {"metadata": {"labels": {"patched": "strategic"}}}
        await to.ask("strategic merge patch", "PATCH", one, label, STRATEGIC)
        steps = [{"op": "replace", "path": "/metadata/labels/patched", "value": "json"}]
        await to.ask("JSON patch", "PATCH", one, steps, JSON_PATCH)
        await to.ask("apply", "PATCH", one, self.sample, APPLY, fieldManager="recorder")
        to.note("\n# patch what is wrong")
        await to.brief("a failing test", "PATCH", one,
                       [{"op": "test", "path": "/kind", "value": "x"}], JSON_PATCH)  # fmt: skip
        await to.brief("no such path", "PATCH", one, [{"op": "remove", "path": "/x"}], JSON_PATCH)
        await to.brief("no patch", "PATCH", one, {}, {"content-type": "application/json"})
        await to.brief("a number", "PATCH", one, b"1", MERGE)
        await to.brief("no such object", "PATCH", f"{self.all}/none", {}, MERGE)
        await to.brief("the kind", "PATCH", one, {"kind": "Other"}, MERGE)
        await to.brief("the name", "PATCH", one, {"metadata": {"name": "other"}}, MERGE)
        await to.brief("a stale version", "PATCH", one, {"metadata": {"resourceVersion": "1"}},
                       MERGE)  # fmt: skip
        await to.brief("an unknown field", "PATCH", one, {"unknown": 1}, MERGE, **DRY)

    async def parts(self) -> None:
        """Request every subresource with every method."""
        names = dict(self.kind.parts)
        if "status" in names:
            await self.status()
        if "scale" in names:
            await self.scale()
        self.to.note("\n# subresources")
        for part in sorted(names):
            await self.to.methods(f"{self.one}/{part}", **DRY)
        for part in sorted({"status", "scale", "nothing"} - {*names}):
            await self.to.brief(part, "GET", f"{self.one}/{part}")
        if "status" in names:
            await self.to.brief("status of none", "GET", f"{self.all}/none/status")
            await self.to.brief("as a stranger", "GET", f"{self.one}/status", None, AS_OTHER_USER)

    async def status(self) -> None:
        to, at = self.to, f"{self.one}/status"
        await to.ask("get status", "GET", at)
        stored = (await self.api.call("GET", self.one)).json
        other_value = merged(stored, self.kind.change) | {"status": STATUS}
        await to.ask("update status", "PUT", at, other_value)
        await to.ask("patch status", "PATCH", at, {"status": {"phase": "Other"}}, MERGE)
        await to.ask("patch status of labels", "PATCH", at,
                     {"metadata": {"labels": {"status": "yes"}}}, MERGE)  # fmt: skip
        await to.brief("patch a wrong status", "PATCH", at, {"status": 1}, MERGE)
        await to.ask("status does not change here", "PATCH", self.one, {"status": None}, MERGE)

    async def scale(self) -> None:
        to, at = self.to, f"{self.one}/scale"
        shown = await to.ask("get scale", "GET", at)
        await to.ask("update scale", "PUT", at, merged(shown.json, {"spec": {"replicas": 5}}))
        await to.ask("patch scale", "PATCH", at, {"spec": {"replicas": 6}}, MERGE)
        await to.ask("what was scaled", "GET", self.one)
        await to.brief("a negative scale", "PATCH", at, {"spec": {"replicas": -1}}, MERGE)
        await to.brief("a stale scale", "PUT", at, shown.json)

    async def every_field(self) -> None:
        """Remove and change every field of the object and of its spec, as dry runs."""
        stored = (await self.api.call("GET", self.one)).json
        self.to.note("\n# take away or change one field, dry run")
        for name, patch in changes_of(stored):
            await self.to.brief(name, "PATCH", self.one, patch, MERGE, **DRY)

    async def deleting(self) -> None:
        to, one, again = self.to, self.one, self.again
        await to.ask("delete, dry run", "DELETE", one, **DRY)
        to.note("\n# delete what is wrong")
        await to.brief("another uid", "DELETE", one, {"preconditions": {"uid": "x"}})
        await to.brief(
            "a stale version", "DELETE", one, {"preconditions": {"resourceVersion": "1"}}
        )
        await to.brief("nonsense", "DELETE", one, {"propagationPolicy": "Sideways"})
        await to.brief("twice said", "DELETE", one,
                       {"propagationPolicy": "Orphan", "orphanDependents": True})  # fmt: skip
        await to.brief("no such object", "DELETE", f"{self.all}/none")
        await to.brief("as a stranger", "DELETE", one, None, AS_OTHER_USER)
        await self.api.call("PATCH", one, WITH_FINALIZER, headers=MERGE)
        await to.ask("delete what has a finalizer", "DELETE", one)
        await to.ask("delete it again", "DELETE", one)
        await to.brief("another finalizer", "PATCH", one,
                       {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}},
                       MERGE)  # fmt: skip
        await to.ask("take the finalizer away", "PATCH", one, WITHOUT_FINALIZERS, MERGE)
        await to.brief("it is gone", "GET", one)
        await again()
        await to.ask("delete", "DELETE", one)
        await again()
        await to.ask("delete in the foreground", "DELETE", one, {"propagationPolicy": "Foreground"})
        await again()
        await to.ask("delete and orphan", "DELETE", one, None, propagationPolicy="Orphan")
        await again()
        await to.ask("delete without grace", "DELETE", one, {"gracePeriodSeconds": 0})
        await again()
        await to.brief("delete all, nonsense", "DELETE", self.all, {"propagationPolicy": "x"})
        await to.ask("delete all, dry run", "DELETE", self.all, **MARKED, **DRY)
        await to.ask("delete all", "DELETE", self.all, **MARKED)
        await to.ask("list none", "GET", self.all, **MARKED)

    async def again(self) -> None:
        """Create the object again."""
        await self.purge(self.one)
        await self.api.create(self.all, self.sample)

    async def purge(self, path: str) -> None:
        """Delete all objects, even those with finalizers."""
        at_once = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for _ in range(3):
            found = await self.api.call("GET", path)
            if found.status == 404:
                return
            await self.api.call("PATCH", path, WITHOUT_FINALIZERS, headers=MERGE)
            await self.api.call("DELETE", path, at_once)
            if self.kind.plural == "namespaces":
                held = found.json | {"spec": {"finalizers": []}}
                await self.api.call("PUT", f"{path}/finalize", merged(held, VERSIONLESS))
        raise AssertionError(f"{path} does not go")


VERSIONLESS = {"metadata": {"resourceVersion": None}}


def merged(target: Any, change: Any) -> Any:
    """Apply a JSON merge patch to a copy."""
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def with_label(obj: Raw) -> Raw:
    return merged(obj, {"metadata": {"labels": MARK}})


def renamed(obj: Raw, name: str) -> Raw:
    return merged(obj, {"metadata": {"name": name}})


def relabelled(obj: Raw, labels: Raw) -> Raw:
    return merged(obj, {"metadata": {"labels": labels}})


def versioned(obj: Raw, version: str) -> Raw:
    return merged(obj, {"metadata": {"resourceVersion": version}})


def without_each_field(obj: Raw) -> list[tuple[str, Raw]]:
    """Return copies of an object, each without one of its fields or of those of its spec."""
    names = [n for n in obj if n not in ("apiVersion", "kind", "metadata")]
    found = [(name, {k: v for k, v in obj.items() if k != name}) for name in names]
    for name, value in (obj.get("spec") or {}).items():
        found.append((f"spec.{name}", merged(obj, {"spec": {name: None}})))
        found.append(
            (f"the shape of spec.{name}", merged(obj, {"spec": {name: value_of_other_type(value)}}))
        )
    return found


def value_of_other_type(value: Any) -> Any:
    """Return a value of another type."""
    return "text" if isinstance(value, dict | list | int) else [1]


def changes_of(obj: Raw) -> list[tuple[str, Raw]]:
    """Return merge patches that each remove or change one field."""
    found: list[tuple[str, Raw]] = []
    for name, value in obj.items():
        if name in ("apiVersion", "kind", "metadata", "status"):
            continue
        found += [(f"- {name}", {name: None}), (f"~ {name}", {name: other_value(value)})]
    for name, value in (obj.get("spec") or {}).items():
        found += [(f"- spec.{name}", {"spec": {name: None}}),
                  (f"~ spec.{name}", {"spec": {name: other_value(value)}})]  # fmt: skip
    return found


def other_value(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return [other_value(value[0]), *value[1:]] if value else ["x"]
    if isinstance(value, dict) and value:
        first = next(iter(value))
        return value | {first: other_value(value[first])}
    return {"x": "y"}
