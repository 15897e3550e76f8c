"""Malformed stored objects affect no other objects, and can be deleted.

Objects of every kind that the server, a controller or an agent reads are stored with each field
removed, null or of a wrong type, as an older server may have stored them. Each field gets one of
the wrong values, in turn.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import msgspec
import pytest

from apiserver.direct_store import store_directly
from apiserver.mutants import mutants
from controllers.small_cluster import start_small_cluster
from holdfast.api import scheme
from holdfast.api.resource import Resource
from holdfast.client.transport import Request
from holdfast.server.kinds import BUILT_IN
from holdfast.server.store import ObjectKey
from holdfast.server.user import ADMIN, User
from holdfast.testing import (
    a_claim,
    a_claim_template,
    a_deployment,
    a_namespace,
    a_node,
    a_pod,
    a_priority_class,
    a_replica_set,
    a_reservation,
    a_resource_policy,
    a_unit,
)
from holdfast.testing.builders import an_object
from soak_size import some_of

WRONG = (None, "x", 7, [], {}, [None], {"x": []})
CUSTOM = (scheme.RESERVATIONS, scheme.RESOURCE_POLICIES, scheme.POD_MIGRATION_JOBS)
TIME = "2023-11-14T22:13:20Z"
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "none",
    "uid": "u",
    "controller": True,
}
META = {
    "labels": {"app": "m"}, "annotations": {"a": "b"}, "finalizers": ["example.com/hold"],
    "ownerReferences": [OWNER], "creationTimestamp": TIME, "generation": 1, "uid": "u1",
}  # fmt: skip
CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": TIME, "reason": "r"}
ROLE = {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"],
                   "resourceNames": ["x"]}]}  # fmt: skip
BINDING = {
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
}


def of(group, plural):
    return next(s.resource for s in BUILT_IN if s.group_resource == (group, plural))


RBAC = "rbac.authorization.k8s.io"
STATUS = {"conditions": [CONDITION], "observedGeneration": 1}
FULL: list[tuple[Resource[Any], dict[str, Any]]] = [
    (scheme.NAMESPACES, a_namespace("m") | {"spec": {"finalizers": ["kubernetes"]},
                                            "status": {"phase": "Active"}}),
    (scheme.PRIORITY_CLASSES, a_priority_class("m", 5, globalDefault=False,
                                               preemptionPolicy="Never")),
    (of(RBAC, "clusterroles"),
     {**ROLE, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
    (of(RBAC, "roles"), ROLE),
    (of(RBAC, "clusterrolebindings"), BINDING),
    (of(RBAC, "rolebindings"), BINDING),
    (of("", "events"), {"involvedObject": {"kind": "Pod", "name": "p", "uid": "x"}, "count": 1,
                        "lastTimestamp": TIME, "reason": "r", "message": "m", "type": "Normal"}),
    (scheme.DEPLOYMENTS, a_deployment("m", replicas=0) | {"status": {"replicas": 0, **STATUS}}),
    (scheme.REPLICASETS, a_replica_set("m", replicas=0) | {"status": {"replicas": 0, **STATUS}}),
    (scheme.PODS, a_pod("m", cpu="1", nodeName="sound") | {
        "status": {"phase": "Pending", "podIP": "10.0.0.9", "conditions": [CONDITION],
                   "containerStatuses": [{"name": "c", "restartCount": 1, "ready": True}]}}),
    (scheme.NODES, a_node("m") | {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}],
                                           "unschedulable": False}}),
    (of("policy", "poddisruptionbudgets"),
     {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "m"}}},
      "status": {"disruptionsAllowed": 0, "disruptedPods": {"p": TIME}, **STATUS}}),
    (of("coordination.k8s.io", "leases"),
     {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 40, "renewTime": TIME}}),
    (scheme.RESOURCE_CLAIMS, a_claim("m")),
    (of("resource.k8s.io", "resourceclaimtemplates"), a_claim_template("m")),
    (scheme.RESERVATIONS, a_reservation("m") | {
        "status": {"phase": "Available", "nodeName": "sound", "allocatable": {"cpu": "1"},
                   "currentOwners": [{"name": "p", "namespace": "default", "uid": "z"}],
                   "conditions": [CONDITION]}}),
    (scheme.POD_MIGRATION_JOBS, an_object(scheme.POD_MIGRATION_JOBS, "m", {
        "podRef": {"namespace": "default", "name": "sound", "uid": "u"}, "ttl": "5m",
        "mode": "ReservationFirst", "paused": False,
        "deleteOptions": {"gracePeriodSeconds": 1, "preconditions": {"uid": "u"}},
        "reservationOptions": {
            "reservationRef": {"name": "m"},
            "template": {"metadata": {"labels": {"a": "b"}},
                         "spec": {"owners": [{"object": {"name": "x"}}]}}}}) | {
        "status": {"phase": "Running", "status": "Eviction", "nodeName": "sound",
                   "podRef": {"namespace": "default", "name": "sound"},
                   "conditions": [CONDITION]}}),
    (scheme.RESOURCE_POLICIES, a_resource_policy(
        "m", pods={}, match_label_keys=["k"], match_policy={"ignoreTerminatingPod": True},
        units=[a_unit("u", 3, nodes={"a": "b"}, max_count=1, max_resources={"cpu": "1"},
                      pod_labels={"l": "v"})]) | {
        "status": {"usage": "u 0/1", "headroom": "1", **STATUS,
                   "units": [{"name": "u", "nodes": 0, "pods": 0, "maxCount": 1,
                              "groups": [{"labels": {"k": "v"}, "pods": 1}]}]}}),
]  # fmt: skip


def malformed_objects(resource, body):
    space = "default" if resource.namespaced else ""
    meta = META | ({"namespace": space} if space else {})
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    full = head | {**body, "metadata": {**body.get("metadata", {}), **meta, "name": "m"}}
    for number, (what, made) in some_of(enumerate(mutants(full, WRONG, each=1)), 3):
        if what == "('spec', 'finalizers', 0) = 'x'":
            continue  # a valid finalizer, which another client removes
        name = f"m{number}"
        if isinstance(made.get("metadata"), dict):
            if made["metadata"].get("name") == "m":
                made["metadata"]["name"] = name
            if made["metadata"].get("uid") == "u1":
                made["metadata"]["uid"] = name
        yield what, ObjectKey(resource.group, resource.plural, space, name), made


async def send(cluster, method, path, body=None, user=ADMIN, **headers):
    sent = b"" if body is None else msgspec.json.encode(body)
    request = Request(method, path, {}, {k.replace("_", "-"): v for k, v in headers.items()}, sent)
    return await cluster.server.handle(request, user)


async def everything_else_works(cluster, resource):
    await cluster.create(a_node("sound"))
    for round_ in range(2):
        await cluster.create(a_deployment(f"sound{round_}", replicas=2))
        if resource is not scheme.PODS:
            await cluster.bind_all("sound")
        await cluster.clock.advance(5)
    names = {pod.name for pod in await readable_pods(cluster)}
    assert len([name for name in names if name.startswith("sound")]) == 4
    user = User("u", ("system:authenticated",))
    assert (await send(cluster, "GET", "/api/v1/pods", user=user)).status in (200, 403)
    space = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "extra"}}
    assert (await send(cluster, "POST", "/api/v1/namespaces", space)).status == 201
    assert (await send(cluster, "DELETE", "/api/v1/namespaces/extra")).status == 200
    await cluster.clock.advance(30)
    assert (await send(cluster, "GET", "/api/v1/namespaces/extra")).status == 404


async def free(cluster, resource, body, path, what):
    """Remove the finalizers; replace a custom resource that violates its schema."""
    change = {"metadata": {"finalizers": None, "ownerReferences": None}}
    media = "application/merge-patch+json"
    answer = await send(cluster, "PATCH", path, change, content_type=media)
    if resource in CUSTOM and answer.status in (400, 422):
        found = msgspec.json.decode((await send(cluster, "GET", path)).body)["metadata"]
        kept = {key: found[key] for key in ("name", "resourceVersion")}
        answer = await send(cluster, "PUT", path, {**body, "metadata": kept})
    assert answer.status in (200, 404), (what, answer.body)


async def readable_pods(cluster):
    return (await cluster.client.list(scheme.PODS, "default", unreadable=lambda _: None)).items


@pytest.mark.long
@pytest.mark.parametrize(("resource", "body"), FULL, ids=lambda p: getattr(p, "plural", ""))
async def test_malformed_stored_objects_do_not_affect_others(tmp_path, resource, body):
    made = list(malformed_objects(resource, body))
    stored = [(key, copy.deepcopy(obj)) for _, key, obj in made]
    async with start_small_cluster(tmp_path):
        pass  # creates the bootstrap objects, with the custom resource definitions
    await store_directly(tmp_path, *stored)
    async with start_small_cluster(tmp_path) as cluster:
        await cluster.clock.advance(60)
        await asyncio.wait_for(everything_else_works(cluster, resource), 120)
        collection = resource.path("")
        table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        for headers in ({}, {"accept": table}):
            listed = await send(cluster, "GET", collection, **headers)
            assert listed.status == 200, listed.body[:500]
        for what, key, _ in made:
            path = f"{resource.path(key.namespace)}/{key.name}"
            await free(cluster, resource, body, path, what)
            answer = await send(cluster, "DELETE", path)
            assert answer.status in (200, 202, 404), (what, answer.body)
        await cluster.clock.advance(120)
        left = cluster.server.context.store.list(resource.group, resource.plural)
        stuck = [s.key.name for s in left if s.key.name.startswith("m")]
        whats = {key.name: what for what, key, _ in made}
        assert [whats[name] for name in stuck if name in whats] == []
        assert cluster.controllers.healthy
