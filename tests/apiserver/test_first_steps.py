from holdfast.api.scheme import PODS

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
PODS_PATH = "/api/v1/namespaces/default/pods"


async def test_a_pod_is_created_read_listed_watched_bound_and_deleted(api):
    made = await api.create(PODS_PATH, POD)
    assert made["metadata"]["uid"] and made["status"]["phase"] == "Pending"
    got = await api.call("GET", f"{PODS_PATH}/a")
    assert got.json == made
    listing = (await api.call("GET", PODS_PATH)).json
    assert listing["items"] == [made]
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    async with api.watch(PODS_PATH, resourceVersion=listing["metadata"]["resourceVersion"]) as w:
        assert (await api.call("POST", f"{PODS_PATH}/a/binding", binding)).status == 201
        event = await w.next()
        assert event["type"] == "MODIFIED"
        assert event["object"]["spec"]["nodeName"] == "n1"
        await api.call("DELETE", f"{PODS_PATH}/a", {"gracePeriodSeconds": 0})
        assert (await w.next())["type"] == "DELETED"
    assert (await api.call("GET", f"{PODS_PATH}/a")).status == 404


async def test_the_in_process_client_sees_what_https_wrote(api):
    await api.create(PODS_PATH, POD)
    pod = await api.client().get(PODS, "a", "default")
    assert pod.spec.containers[0].image == "i"
