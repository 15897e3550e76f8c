"""The rights that a write of the status of a claim needs, besides that on the status."""

import msgspec
import pytest

from apiserver.server_fixture import start_server
from holdfast.api.validation.json_fields import is_same
from holdfast.client.transport import Request
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.user import User
from validation.device_builders import CLAIMS, DRIVER, claim, expression, term
from validation.device_statuses import consumer, device_status, status

RBAC = "/apis/rbac.authorization.k8s.io/v1"
USER = {"impersonate-user": "scheduler"}
BINDING = (
    'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
    'verb="{0}" permission: resourceclaims.resource.k8s.io is forbidden: User "scheduler" cannot '
    '{0} resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
)
MERGE = {"content-type": "application/merge-patch+json"}


async def grant(api, name, resources, verbs, names=(), user="scheduler"):
    """Give a user a ClusterRole."""
    rule = {"apiGroups": ["resource.k8s.io"], "resources": resources, "verbs": verbs}
    rule |= {"resourceNames": list(names)} if names else {}
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    await api.create(f"{RBAC}/clusterroles", {**role, "rules": [rule]})
    await api.create(
        f"{RBAC}/clusterrolebindings",
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        },
    )


@pytest.fixture
async def claims(api):
    """A claim, and a user who may write the status of claims."""
    await api.create(CLAIMS, claim())
    await grant(api, "status", ["resourceclaims/status"], ["update", "patch"])
    return api


async def put(api, written, headers=USER):
    body = {**claim(), "status": written}
    return await api.call("PUT", f"{CLAIMS}/one/status", body, headers=headers)


async def test_D088_allocating_needs_the_right_to_bind_claims(claims):
    """As upstream, the missing right is an error of the field, so that the answer is 422."""
    answer = await put(claims, status())
    assert answer.status == 422
    cause = {"reason": "FieldValueForbidden", "field": "status.allocation"}
    message = f"Forbidden: {BINDING.format('update')}"
    assert answer.json["details"]["causes"] == [cause | {"message": message}]
    await grant(claims, "bind", ["resourceclaims/binding"], ["update"])
    answer = await put(claims, status())
    assert answer.status == 200, answer.body


async def test_D089_without_the_gate_the_right_on_the_status_is_enough(tmp_path):
    gates = FeatureGates.parse("DRAResourceClaimGranularStatusAuthorization=false")
    async with start_server(tmp_path, feature_gates=gates) as api:
        await api.create(CLAIMS, claim())
        await grant(api, "status", ["resourceclaims/status"], ["update"])
        assert (await put(api, status())).status == 200


async def test_D088_a_patch_needs_the_right_to_patch(claims):
    await grant(claims, "bind", ["resourceclaims/binding"], ["update"])
    body, at = {"status": status()}, f"{CLAIMS}/one/status"
    answer = await claims.call("PATCH", at, body, headers=USER | MERGE)
    assert answer.status == 422
    assert BINDING.format("patch") in answer.json["message"]
    await grant(claims, "patch", ["resourceclaims/binding"], ["patch"])
    answer = await claims.call("PATCH", at, body, headers=USER | MERGE)
    assert answer.status == 200, answer.body


async def test_reserving_needs_the_right_to_bind_claims(claims):
    assert (await put(claims, status(), headers={})).status == 200
    answer = await put(claims, status(reserved=[consumer()]))
    assert answer.status == 422
    assert BINDING.format("update") in answer.json["message"]
    unchanged = await put(claims, status())
    assert unchanged.status == 200, unchanged.body


async def test_a_user_without_the_right_on_the_status_gets_403(claims):
    headers = {"impersonate-user": "nobody"}
    assert (await put(claims, status(), headers)).status == 403


async def test_a_device_status_needs_the_right_of_its_driver(claims):
    await put(claims, status(), headers={})
    answer = await put(claims, device_status())
    assert answer.status == 422
    (cause,) = answer.json["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("status.devices", "FieldValueForbidden")
    assert 'verb="[arbitrary-node:update]" permission: ' in cause["message"]
    await grant(
        claims, "driver", ["resourceclaims/driver"], ["arbitrary-node:update"], ["other", DRIVER]
    )
    answer = await put(claims, device_status())
    assert answer.status == 200, answer.body
    assert is_same(answer.json["status"], device_status())


async def test_clearing_an_allocation_needs_no_right_of_the_driver(claims):
    await put(claims, device_status(), headers={})
    await grant(claims, "bind", ["resourceclaims/binding"], ["update"])
    answer = await put(claims, {"devices": device_status()["devices"]})
    assert (answer.status, answer.json["status"]) == (200, {})


@pytest.mark.parametrize("node, answered", [("here", 200), ("there", 422)])
async def test_a_driver_on_the_node_of_the_claim_needs_less(claims, node, answered):
    """The token of a pod names its node."""
    here = term(matchFields=[expression("metadata.name", values=["here"])])
    await put(claims, status(nodeSelector=here), headers={})
    rights = ["resourceclaims/status", "resourceclaims/driver"]
    account = "system:serviceaccount:default:driver"
    await grant(claims, "driver", rights, ["update", "associated-node:update"], user=account)
    extra = {"authentication.kubernetes.io/node-name": (node,)}
    user = User(account, ("system:authenticated",), extra=extra)
    written = {**device_status(), "allocation": status(nodeSelector=here)["allocation"]}
    body = msgspec.json.encode({**claim(), "status": written})
    transport = InProcessTransport(claims.server, user)
    answer = await transport.send(Request("PUT", f"{CLAIMS}/one/status", body=body))
    assert answer.status == answered, answer.body
