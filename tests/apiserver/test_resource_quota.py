"""Admission by ResourceQuota: what is charged, what is refused, and that nothing is charged twice.

tests/real/test_resource_quotas.py compares these answers with those of kube-apiserver.
"""

import asyncio
import copy

import pytest

from apiserver.server_fixture import start_server
from quota.quota_cases import (
    CLAIMS,
    CONFIG_MAP,
    CONFIG_MAPS,
    GPU,
    PODS,
    SERVICES,
    VOLUME_CLAIMS,
    asking,
    claim,
    container,
    everything,
    exactly,
    first_of,
    pod,
    quota,
    service,
    volume_claim,
)

HERE = "default"
QUOTAS = f"/api/v1/namespaces/{HERE}/resourcequotas"


def named(obj, name):
    """Return a copy of an object with another name."""
    return {**copy.deepcopy(obj), "metadata": {**obj["metadata"], "name": name}}


async def set_quota(api, hard, used=None, **spec):
    """Create a quota and write the status that the controller would write."""
    stored = await api.create(QUOTAS, quota(hard, **spec))
    counted = dict.fromkeys(hard, "0") | (used or {})
    stored["status"] = {"hard": hard, "used": counted}
    assert (await api.call("PUT", f"{QUOTAS}/q/status", stored)).status == 200


async def used(api, name="q"):
    return (await api.call("GET", f"{QUOTAS}/{name}")).json["status"]["used"]


async def post(api, path, obj, **query):
    answer = await api.call("POST", path.format(HERE), obj, **query)
    return answer.status, answer.json.get("message", "")


async def test_D075_a_quota_of_one_device_blocks_the_second_claim(api):
    await set_quota(api, {GPU: "1"})
    assert (await post(api, CLAIMS, named(claim(exactly("gpu")), "first")))[0] == 201
    assert await post(api, CLAIMS, named(claim(exactly("gpu")), "second")) == (
        403,
        'resourceclaims.resource.k8s.io "second" is forbidden: exceeded quota: q, '
        f"requested: {GPU}=1, used: {GPU}=1, limited: {GPU}=1",
    )
    assert await used(api) == {GPU: "1"}


async def test_D075_all_devices_charge_32_and_alternatives_the_maximum(api):
    await set_quota(api, {GPU: "40"})
    assert (await post(api, CLAIMS, named(claim(everything("gpu")), "all")))[0] == 201
    assert await used(api) == {GPU: "32"}
    either = claim(first_of(("gpu", 2), ("nic", 8), ("gpu", 5)), exactly("gpu"))
    assert (await post(api, CLAIMS, named(either, "either")))[0] == 201
    assert await used(api) == {GPU: "38"}


async def test_D075_a_claim_of_a_beta_version_charges_what_it_charges_as_v1(api):
    await set_quota(api, {GPU: "6"})
    flat = {"deviceClassName": "gpu", "count": 2, "allocationMode": "ExactCount"}
    for version, request in (
        ("v1beta1", {"name": "a", **flat}),
        ("v1beta2", {"name": "a", "exactly": flat}),
    ):
        path = CLAIMS.replace("/v1/", f"/{version}/")
        body = {**claim(), "apiVersion": f"resource.k8s.io/{version}"}
        body["spec"] = {"devices": {"requests": [request]}}
        assert (await post(api, path, named(body, version)))[0] == 201
    assert await used(api) == {GPU: "4"}
    alternatives = [{"name": str(count), **flat, "count": count} for count in (1, 3)]
    body = {**claim(), "apiVersion": "resource.k8s.io/v1beta1"}
    body["spec"] = {"devices": {"requests": [{"name": "a", "firstAvailable": alternatives}]}}
    refused = f"requested: {GPU}=3, used: {GPU}=4, limited: {GPU}=6"
    answer = await post(api, CLAIMS.replace("/v1/", "/v1beta1/"), named(body, "either"))
    assert (answer[0], answer[1].endswith(refused)) == (403, True)


async def test_a_quota_without_a_status_is_not_enforced(api):
    await api.create(QUOTAS, quota({"pods": "0"}))
    assert (await post(api, PODS, pod()))[0] == 201


async def test_of_concurrent_writes_only_those_that_fit_are_stored(api):
    await set_quota(api, {"pods": "5", "requests.cpu": "10"})
    answers = await asyncio.gather(
        *(post(api, PODS, named(asking(cpu="1"), f"p{i}")) for i in range(20))
    )
    assert sorted(status for status, _ in answers) == [201] * 5 + [403] * 15
    assert await used(api) == {"pods": "5", "requests.cpu": "5"}


async def test_a_write_that_fails_is_not_charged(api):
    await set_quota(api, {"pods": "5"})
    assert (await post(api, PODS, pod()))[0] == 201
    assert (await post(api, PODS, pod()))[0] == 409
    assert (await post(api, PODS, named(pod(), "dry"), dryRun="All"))[0] == 201
    assert (await post(api, PODS, named(pod(), "Wrong_Name")))[0] == 422
    assert await used(api) == {"pods": "1"}


async def test_a_dry_run_is_refused_by_a_full_quota(api):
    await set_quota(api, {"pods": "0"})
    assert (await post(api, PODS, pod(), dryRun="All"))[0] == 403


async def test_a_charge_is_lost_with_its_object_when_the_disk_is_full(tmp_path):
    full = []

    def fault(connection):
        if full:
            raise OSError("no space left on device")

    async with start_server(tmp_path, fault=fault) as api:
        await set_quota(api, {"pods": "2"})
        full.append(True)
        assert (await post(api, PODS, pod()))[0] == 503
    full.clear()
    async with start_server(tmp_path) as api:
        assert await used(api) == {"pods": "0"}
        assert (await post(api, PODS, pod()))[0] == 201
        assert await used(api) == {"pods": "1"}


async def test_a_generated_name_is_charged_once(api):
    await set_quota(api, {"pods": "2"})
    generated = {**pod(), "metadata": {"generateName": "p-"}}
    assert (await post(api, PODS, generated))[0] == 201
    assert await used(api) == {"pods": "1"}


async def test_one_write_is_charged_to_all_quotas_or_to_none(api):
    await set_quota(api, {"pods": "5"})
    other = await api.create(QUOTAS, named(quota({"count/pods": "1"}), "a"))
    other["status"] = {"hard": {"count/pods": "1"}, "used": {"count/pods": "0"}}
    assert (await api.call("PUT", f"{QUOTAS}/a/status", other)).status == 200
    assert (await post(api, PODS, named(pod(), "first")))[0] == 201
    status, message = await post(api, PODS, named(pod(), "second"))
    assert status == 403
    assert "exceeded quota: a, requested: count/pods=1" in message
    assert (await used(api), await used(api, "a")) == ({"pods": "1"}, {"count/pods": "1"})


async def test_an_update_is_charged_by_what_it_adds(api):
    await set_quota(api, {"requests.storage": "10Gi", "persistentvolumeclaims": "1"})
    stored = await api.create(VOLUME_CLAIMS.format(HERE), volume_claim("4Gi"))
    path = VOLUME_CLAIMS.format(HERE) + "/v"

    async def resize(size):
        stored["spec"]["resources"]["requests"]["storage"] = size
        stored["metadata"].pop("resourceVersion", None)
        return (await api.call("PUT", path, stored)).status

    assert await resize("9Gi") == 200
    assert await used(api) == {"persistentvolumeclaims": "1", "requests.storage": "9Gi"}
    assert await resize("11Gi") == 403
    assert await resize("3Gi") == 200
    assert (await used(api))["requests.storage"] == "9Gi", "only the controller releases"


async def test_the_allocated_size_in_a_status_is_charged_but_never_refused(api):
    await set_quota(api, {"requests.storage": "5Gi"})
    stored = await api.create(VOLUME_CLAIMS.format(HERE), volume_claim("4Gi"))
    stored["status"] = {"phase": "Bound", "allocatedResources": {"storage": "7Gi"}}
    path = VOLUME_CLAIMS.format(HERE) + "/v/status"
    assert (await api.call("PUT", path, stored)).status == 200
    assert await used(api) == {"requests.storage": "7Gi"}


async def test_a_service_that_becomes_a_load_balancer_is_charged(api):
    await set_quota(api, {"services.loadbalancers": "0", "services": "1"})
    await api.create(SERVICES.format(HERE), service("ClusterIP"))
    merge = {"content-type": "application/merge-patch+json"}
    path = SERVICES.format(HERE) + "/s"
    answer = await api.call("PATCH", path, {"spec": {"type": "LoadBalancer"}}, headers=merge)
    assert answer.status == 403
    assert "exceeded quota: q, requested: services.loadbalancers=1" in answer.json["message"]
    answer = await api.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, headers=merge)
    assert answer.status == 200


async def test_a_pod_that_gets_a_deadline_moves_to_the_other_scope(api):
    await set_quota(api, {"pods": "0"}, scopes=["Terminating"])
    await api.create(PODS.format(HERE), pod())
    merge = {"content-type": "application/merge-patch+json"}
    path = PODS.format(HERE) + "/p"
    change = {"spec": {"activeDeadlineSeconds": 5}}
    answer = await api.call("PATCH", path, change, headers=merge)
    assert answer.status == 403, answer.json
    assert "exceeded quota: q, requested: pods=1, used: pods=0" in answer.json["message"]
    answer = await api.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, headers=merge)
    assert answer.status == 200


async def test_quotas_count_quotas_and_custom_resources_but_no_events(api):
    await set_quota(api, {"resourcequotas": "1", "count/events": "0"}, {"resourcequotas": "1"})
    status, message = await post(api, QUOTAS, named(quota({}), "more"))
    assert (status, "requested: resourcequotas=1" in message) == (403, True)
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": HERE},
        "involvedObject": {"namespace": HERE},
    }  # fmt: skip
    assert (await post(api, "/api/v1/namespaces/{}/events", event))[0] == 201


async def test_other_namespaces_are_not_charged(api):
    await set_quota(api, {"configmaps": "0"})
    path = CONFIG_MAPS.format("kube-system")
    assert (await api.call("POST", path, CONFIG_MAP)).status == 201
    assert (await post(api, CONFIG_MAPS, CONFIG_MAP))[0] == 403


@pytest.mark.parametrize("hard", [{"requests.cpu": "1"}, {"limits.memory": "1Gi"}])
async def test_a_malformed_status_refuses_and_does_not_fail(api, hard):
    stored = await api.create(QUOTAS, quota(hard))
    stored["status"] = {"hard": hard}
    assert (await api.call("PUT", f"{QUOTAS}/q/status", stored)).status == 200
    status, message = await post(api, PODS, pod())
    assert (status, "must specify" in message) == (403, True)


async def test_limits_below_requests_get_a_warning(api):
    wrong = quota({"requests.cpu": "2", "limits.cpu": "1500m"})
    answer = await api.call("POST", QUOTAS, wrong)
    assert answer.status == 201
    warning = "ResourceQuota requests.cpu (2) should be less than limits.cpu (1500m)"
    assert warning in answer.headers["warning"]


CORE, RATIO = (f"requests.koordinator.sh/{name}" for name in ("gpu-core", "gpu-memory-ratio"))


def on_gpus(name, amounts):
    return named(pod(container(requests=amounts, limits=amounts)), name)


@pytest.mark.parametrize(
    ("name", "one", "too_many"),
    [
        ("koordinator.sh/gpu", 100, 400),
        ("koordinator.sh/gpu", 50, 101),
        ("nvidia.com/gpu", 1, 2),
        ("amd.com/gpu", 1, 2),
        ("dcu.com/gpu", 1, 2),
    ],
)
@pytest.mark.parametrize("key", [CORE, RATIO])
async def test_a_gpu_is_charged_in_percent_whatever_its_name(api, name, one, too_many, key):
    percent = one if name.startswith("koord") else 100 * one
    own = f"requests.{name}"
    await set_quota(api, {key: "100", own: "1000"})
    status, said = await post(api, PODS, on_gpus("many", {name: str(too_many)}))
    assert (status, "exceeded quota: q" in said and key in said) == (403, True)
    assert (await post(api, PODS, on_gpus("one", {name: str(one)})))[0] == 201
    assert await used(api) == {key: str(percent), own: str(one)}


async def test_percent_of_a_gpu_in_several_names_is_charged_once(api):
    await set_quota(api, {CORE: "100", RATIO: "100", "requests.koordinator.sh/gpu-memory": "8Gi"})
    shared = {"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory-ratio": "20"}
    assert (await post(api, PODS, on_gpus("a", shared)))[0] == 201
    bytes_ = {"koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory": "1Gi"}
    assert (await post(api, PODS, on_gpus("b", bytes_)))[0] == 201
    assert await used(api) == {
        CORE: "40", RATIO: "20", "requests.koordinator.sh/gpu-memory": "1Gi",
    }  # fmt: skip
