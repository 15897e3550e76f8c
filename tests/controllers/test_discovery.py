import msgspec
import pytest
from msgspec.structs import replace

from holdfast.api.scheme import DEPLOYMENTS, NODES, PODS, RESERVATIONS
from holdfast.client.client import Client
from holdfast.client.transport import Response
from holdfast.controllers.discovery import AGGREGATED, discover
from holdfast.runtime.errors import Unavailable


class ChangedResponses:
    """A transport that records the paths of requests and may change requests and responses."""

    def __init__(self, inner, *, aggregated=True, change=lambda path, body: body):
        self._inner, self._aggregated, self._change = inner, aggregated, change
        self.paths = []

    async def send(self, request):
        self.paths.append(request.path)
        if not self._aggregated:
            request = replace(request, headers={"accept": "application/json"})
        response = await self._inner.send(request)
        body = msgspec.json.encode(self._change(request.path, msgspec.json.decode(response.body)))
        return Response(response.status, response.headers, body)


def as_rows(served):
    return {(r, r.kind, r.namespaced, r.verbs) for r in served}


async def test_two_requests_discover_all_resources(cluster):
    transport = ChangedResponses(cluster.client.transport)
    served = await discover(Client(transport))
    assert transport.paths == ["/api", "/apis"]
    assert {PODS, NODES, DEPLOYMENTS, RESERVATIONS} <= set(served)
    rows = {r.plural: r for r in served}
    assert (rows["nodes"].namespaced, rows["pods"].namespaced) == (False, True)
    assert rows["deployments"].kind == "Deployment"
    assert {"list", "watch", "delete"} <= set(rows["deployments"].verbs)


async def test_a_server_without_aggregated_discovery_is_read_group_by_group(cluster):
    transport = ChangedResponses(cluster.client.transport, aggregated=False)
    served = await discover(Client(transport))
    assert "/apis/apps/v1" in transport.paths
    assert as_rows(served) == as_rows(await discover(cluster.client))


async def test_a_group_whose_server_does_not_respond_is_omitted(cluster):
    def make_apps_stale(path, body):
        for item in body["items"]:
            if item["metadata"]["name"] == "apps":
                item["versions"][0]["freshness"] = "Stale"
        return body

    served = await discover(
        Client(ChangedResponses(cluster.client.transport, change=make_apps_stale))
    )
    everything = set(await discover(cluster.client))
    assert everything - set(served) == {r for r in everything if r.group == "apps"}


async def test_entries_that_only_carry_subresources_are_no_resources(cluster):
    def add_entries(path, body):
        assert body["kind"] == AGGREGATED
        body["items"][0]["versions"][0]["resources"] += [
            {"resource": "silent", "scope": "Namespaced", "responseKind": {"kind": "Silent"}},
            {"resource": "kindless", "scope": "Namespaced", "verbs": ["get"]},
        ]
        return body

    served = await discover(Client(ChangedResponses(cluster.client.transport, change=add_entries)))
    assert set(served) == set(await discover(cluster.client))


async def test_an_unavailable_server_is_an_error(cluster):
    await cluster.server.stop()
    with pytest.raises(Unavailable):
        await discover(cluster.client)
