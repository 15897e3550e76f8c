"""ResourceQuotas on a real kube-apiserver: it validates and refuses as the embedded server does.

Both get the same quotas and the same writes. No controller runs: the status of a quota is written.
"""

import asyncio

import pytest

from quota.quota_cases import (
    ANSWERS,
    BAD,
    CLAIMS,
    CONFIG_MAP,
    GOOD,
    GPU,
    IMPLICIT,
    PODS,
    WRITES,
    claim,
    container,
    exactly,
    pod,
    quota,
)
from real.both_servers import TEST, causes

pytestmark = pytest.mark.real
CLASS = {
    "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
    "spec": {"extendedResourceName": "example.com/gpu"},
}  # fmt: skip
TRIES = 100


async def test_both_servers_refuse_the_same_quotas_with_the_same_messages(servers):
    path = "/api/v1/namespaces/default/resourcequotas" + TEST
    differing = {}
    for name, body in BAD.items():
        (status, real), (our_status, ours) = await servers.send("POST", path, body)
        assert status == 422, (name, real)
        if our_status != 422 or causes(real) != causes(ours):
            differing[name] = (causes(real), ours)
    assert not differing


async def test_both_servers_accept_the_same_quotas(servers):
    path = "/api/v1/namespaces/default/resourcequotas" + TEST
    for name, body in GOOD.items():
        (status, real), (our_status, ours) = await servers.send("POST", path, body)
        assert (status, our_status) == (201, 201), (name, real, ours)
        assert real["spec"] == ours["spec"], name


async def test_scopes_cannot_change_and_the_status_is_validated(servers):
    path = "/api/v1/namespaces/default/resourcequotas"
    stored = await servers.send("POST", path, quota({"pods": "1"}, scopes=["Terminating"]))
    changes = (
        ("", lambda obj: obj["spec"].update(scopes=["NotTerminating"])),
        ("", lambda obj: obj["spec"].update(hard={"services": "1"})),
        ("/status", lambda obj: obj.update(status={"hard": {"gpus": "1"}, "used": {"pods": "-1"}})),
    )
    try:
        for part, change in changes:
            for _, obj in stored:
                change(obj)
            at = f"{path}/q{part}"
            status, real = await servers.real("PUT", at, stored[0][1])
            our_status, ours = await servers.ours("PUT", at, stored[1][1])
            assert (status, causes(real)) == (our_status, causes(ours)), part
            assert status == 422
    finally:
        await servers.send("DELETE", f"{path}/q")


async def _set_up(servers, namespace, obj, used):
    """Create a quota with a status on both servers."""
    await servers.send(
        "POST", "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
    )  # fmt: skip
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    for status, stored in await servers.send("POST", path, obj):
        assert status in (201, 409), stored
    written = {**obj, "status": {"hard": obj["spec"]["hard"], "used": used}}
    for status, stored in await servers.send("PUT", f"{path}/q/status", written):
        assert status == 200, stored


async def _wait_until_enforced(servers):
    """Wait until the real server has read the newest quota; it reads them in order."""
    for _ in range(TRIES):
        path = "/api/v1/namespaces/quota-last/configmaps" + TEST
        (status, _), _ = await servers.send("POST", path, CONFIG_MAP)
        if status == 403:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the real server does not enforce quotas")


async def test_both_servers_admit_and_refuse_the_same_writes(servers):
    """D075 and the keys and scopes of upstream: same status, same message, same usage."""
    await servers.send("POST", "/apis/resource.k8s.io/v1/deviceclasses", CLASS)
    names = {name: f"quota-{i}" for i, name in enumerate(WRITES)}
    for name, (obj, used, _, _) in WRITES.items():
        await _set_up(servers, names[name], obj, used)
    await _set_up(servers, "quota-last", quota({"configmaps": "0"}), {"configmaps": "0"})
    await _wait_until_enforced(servers)
    differing = {}
    for name, (_, _, path, obj) in WRITES.items():
        namespace = names[name]
        real, ours = await servers.send("POST", path.format(namespace), obj)
        at = f"/api/v1/namespaces/{namespace}/resourcequotas/q"
        said = [answer.get("message") for _, answer in (real, ours)]
        counted = [
            answer["status"].get("used") or {} for _, answer in await servers.send("GET", at)
        ]
        recorded = {
            "message": (said[0] or "").partition(" is forbidden: ")[2],
            "used": counted[0],
        }
        same = real[0] == ours[0] and said[0] == said[1] and counted[0] == counted[1]
        if not same or recorded != ANSWERS[name]:
            differing[name] = (real[0], ours[0], said, counted)
    assert not differing


async def test_D076_both_servers_charge_a_pod_and_its_special_claim_once(servers):
    await servers.send("POST", "/apis/resource.k8s.io/v1/deviceclasses", CLASS)
    explicit, namespace = "requests.example.com/gpu", "quota-special"
    hard = {explicit: "9", GPU: "9", IMPLICIT: "9"}
    await _set_up(servers, namespace, quota(hard), dict.fromkeys(hard, "0"))
    await _set_up(servers, "quota-last", quota({"configmaps": "0"}), {"configmaps": "0"})
    await _wait_until_enforced(servers)
    asked = {"example.com/gpu": "2"}
    body = pod(container(requests=asked, limits=asked))
    real, ours = await servers.send("POST", PODS.format(namespace), body)
    assert (real[0], ours[0]) == (201, 201)
    at = f"/api/v1/namespaces/{namespace}/resourcequotas/q"
    for name, count in (("first", 2), ("second", 3)):
        for owner, post in ((real[1], servers.real), (ours[1], servers.ours)):
            obj = special(owner["metadata"]["uid"], name, count)
            status, answer = await post("POST", CLAIMS.format(namespace), obj)
            assert status == 201, answer
        counted = [answer["status"]["used"] for _, answer in await servers.send("GET", at)]
        assert counted[0] == counted[1]
    assert counted[1] == {explicit: "5", GPU: "5", IMPLICIT: "5"}


def special(uid, name, count):
    """Return a claim for the extended resources of the pod ``p``."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    meta = {"name": name, "annotations": annotations, "ownerReferences": [owner]}
    return {**claim(exactly("gpu", count)), "metadata": meta}
