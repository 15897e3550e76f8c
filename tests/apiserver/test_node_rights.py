"""What a node may read and write: the node authorizer and NodeRestriction."""

import base64
import stat

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from apiserver.node_requests import (
    LEASES,
    NODES,
    SECRETS,
    SETUP,
    SIGNING_REQUESTS,
    STEPS,
    VOLUME_CLAIMS,
    headers_of,
    lease,
    mirror,
    node,
    secret,
)
from apiserver.sample_objects import PODS, pod
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.client.transport import Request
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import BadConfiguration
from holdfast.server.access.credentials import write_node_kubeconfig

NODE_1 = {"impersonate-user": "system:node:n1"}
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def test_A048_a_node_reads_what_its_pods_use_and_writes_its_own_objects(api):
    for path, body in SETUP:
        await api.create(path, body)
    wrong = []
    for method, path, body, query, status, words in STEPS:
        headers = NODE_1 | headers_of(method)
        answer = await api.call(method, path, body, headers=headers, **query)
        told = answer.json.get("message", "") if answer.status >= 400 else ""
        if answer.status != status or words not in told:
            wrong.append((method, path, query, status, words, answer.status, told))
    assert not wrong
    other = (await api.call("GET", f"{PODS}/p-2")).json
    assert "conditions" not in other["status"], "a refused eviction changes nothing"


async def test_A048_a_kubeconfig_of_a_node_has_the_rights_of_that_node(api):
    path, now = api.directory / "nodes" / "n1" / "kubeconfig", SystemClock().now()
    write_node_kubeconfig(api.credentials.directory, "n1", path, api.url, now)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for body in (node("n1"), node("n2")):
        await api.create(NODES, body)
    await api.create(LEASES, lease("n2"))
    await api.create(SECRETS, secret("s"))
    transport = HttpTransport(await load(path))
    patch = b'{"status":{"capacity":{"cpu":"4"}}}'
    merge = {"content-type": "application/merge-patch+json"}

    async def status(method, at, body=b"", headers=merge):
        return (await transport.send(Request(method, at, {}, headers, body))).status

    try:
        assert await status("PATCH", f"{NODES}/n1/status", patch) == 200
        assert await status("PATCH", f"{NODES}/n2/status", patch) == 403
        own = b'{"metadata":{"name":"n1"}}'
        assert await status("POST", LEASES, own, {"content-type": "application/json"}) == 201
        assert await status("PATCH", f"{LEASES}/n2", b"{}") == 403
        assert await status("GET", f"{SECRETS}/s") == 403
        volumes = [{"name": "v", "secret": {"secretName": "s"}}]
        await api.create(PODS, pod("p", nodeName="n1", volumes=volumes))
        assert await status("GET", f"{SECRETS}/s") == 200
        # A node cannot act as another one.
        assert (
            await status("GET", f"{NODES}/n2", b"", {"impersonate-user": "system:node:n2"}) == 403
        )
    finally:
        await transport.close()


def test_the_certificate_in_a_nodes_kubeconfig_is_kept_until_it_is_near_its_end(tmp_path, pki):
    path, day, now = tmp_path / "kubeconfig", 86400, SystemClock().now()

    def write(node, when, url="https://127.0.0.1:1"):
        write_node_kubeconfig(pki, node, path, url, when)
        config = yaml.safe_load(path.read_text())
        assert config["clusters"][0]["cluster"]["server"] == url
        return config["users"][0]

    first = write("n1", now)
    assert write("n1", now + 300 * day, "https://127.0.0.1:2") == first
    assert write("n1", now + 340 * day) != first
    assert write("n2", now)["name"] == "system:node:n2"
    for text in ("", "[]", "users: 1", "{"):
        path.write_text(text)
        assert write("n1", now)["name"] == "system:node:n1"
    for name in ("", "a/b", "UPPER", "a\nb"):
        with pytest.raises(BadConfiguration, match="is not the name of a node"):
            write(name, now)
    with pytest.raises(BadConfiguration, match=r"ca\.key"):
        write_node_kubeconfig(tmp_path, "n1", path, "https://127.0.0.1:1", now)


@pytest.fixture
def pki(tmp_path):
    from holdfast.server.access.credentials import ensure_credentials

    return ensure_credentials(tmp_path / "pki", SystemClock().now()).directory


async def test_a_node_creates_mirror_pods_that_need_nothing_of_the_api(api):
    uid = (await api.create(NODES, node("n1")))["metadata"]["uid"]
    for spec, words in (
        ({}, ""),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, ""),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"downwardAPI": {}}]}}]}, ""),
        ({"serviceAccountName": "a"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "a"}]}, "secrets"),
        ({"volumes": [{"name": "v", "secret": {"secretName": "a"}}]}, "secrets"),
        ({"volumes": [{"name": "v", "configMap": {"name": "a"}}]}, "configmaps"),
        ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, "csidrivers (via CSI volumes)"),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]},
            "persistentvolumeclaims",
        ),
        (
            {
                "volumes": [
                    {
                        "name": "v",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "a"}}]},
                    }
                ]
            },
            "serviceaccounts (via projected volumes)",
        ),
        ({"resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}, "resourceclaims"),
    ):
        body = mirror("m", owners=[{"uid": uid}], **spec)
        answer = await api.call("POST", PODS, body, headers=NODE_1)
        assert answer.status == (403 if words else 201), (spec, answer.json)
        if words:
            refusal = f'pods "m" is forbidden: node "n1" can not create pods that reference {words}'
            assert answer.json["message"] == refusal
        else:
            assert "serviceAccountName" not in answer.json["spec"]
            await api.call("DELETE", f"{PODS}/m", {"gracePeriodSeconds": 0}, headers=NODE_1)


async def test_a_review_of_a_nodes_rights_gives_the_authorizers_answer(api):
    node_1 = {"user": "system:node:n1", "groups": ["system:nodes"]}
    pods = {"verb": "list", "resource": "pods", "version": "v1"}
    on_node = {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}
    for attributes, allowed, reason in (
        ({"verb": "get", "resource": "nodes", "name": "n1"}, True, None),
        (
            {"verb": "get", "resource": "nodes", "name": "n2"},
            False,
            "node 'n1' cannot read 'n2', only its own Node object",
        ),
        (pods, False, "can only list/watch pods with spec.nodeName field selector"),
        (pods | {"fieldSelector": {"rawSelector": "spec.nodeName=n1"}}, True, None),
        (pods | {"fieldSelector": on_node}, True, None),
    ):
        body = {"spec": node_1 | {"resourceAttributes": attributes}}
        status = (await api.create(REVIEWS, body))["status"]
        assert (status["allowed"], status.get("reason")) == (allowed, reason)
    for name, groups in (("n1", {"system:nodes"}), ("UPPER", set()), ("", set())):
        headers = {"impersonate-user": f"system:node:{name}"}
        seen = (await api.call("POST", SELF, {}, headers=headers)).json["status"]["userInfo"]
        assert set(seen["groups"]) == groups | {"system:authenticated"}
    rules = (await api.call("POST", RULES, {"spec": {"namespace": "a"}}, headers=NODE_1)).json
    assert rules["status"]["incomplete"]
    assert "node authorizer" in rules["status"]["evaluationError"]
    # A user with the name of a node that is not in the group has no rights.
    alone = {"user": "system:node:n1", "resourceAttributes": {"verb": "get", "resource": "nodes"}}
    assert (await api.create(REVIEWS, {"spec": alone}))["status"] == {"allowed": False}


@pytest.mark.kubectl
async def test_kubectl_asks_for_the_rights_of_a_node(api):
    ask = ("auth", "can-i", "--as", "system:node:n1", "get")
    assert (await api.kubectl(*ask, "nodes/n1")).out == "yes\n"
    refused = await api.kubectl(*ask, "nodes/n2")
    assert (refused.code, refused.out) == (
        1,
        "no - node 'n1' cannot read 'n2', only its own Node object\n",
    )


def signing_request(name, signer="kubernetes.io/kube-apiserver-client-kubelet"):
    """A request for a certificate of a user."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, SHA256())
    text = base64.b64encode(made.public_bytes(Encoding.PEM)).decode()
    return {"spec": {"request": text, "signerName": signer, "usages": ["client auth"]}}


async def test_a_node_registers_itself_and_asks_for_its_own_certificate_only(api):
    restricted = {"node-restriction.kubernetes.io/a": "b", "example.com/c": "d"}
    for at, body, status, words in (
        (NODES, node("n2"), 403, 'node "n1" is not allowed to modify node "n2"'),
        (
            NODES,
            {**node("n1"), "metadata": {"name": "n1", "labels": restricted}},
            403,
            "is not allowed to set the following labels: node-restriction.kubernetes.io/a",
        ),
        (NODES, node("n1"), 201, ""),
        (SIGNING_REQUESTS, signing_request("system:node:n1"), 201, ""),
        (SIGNING_REQUESTS, signing_request("eve", signer="example.com/s"), 201, ""),
        (SIGNING_REQUESTS, signing_request("system:node:n2"), 403, "CN=system:node:n1"),
        (
            SIGNING_REQUESTS,
            {"spec": {**signing_request("system:node:n1")["spec"], "request": "e30="}},
            403,
            "unable to parse csr",
        ),
    ):
        sent = {**body, "metadata": body.get("metadata") or {"generateName": "c-"}}
        answer = await api.call("POST", at, sent, headers=NODE_1)
        assert answer.status == status, answer.json
        assert words in answer.json.get("message", "")


async def test_a_node_changes_only_the_size_and_conditions_of_a_volume_claim(api):
    for path, body in SETUP:
        if path in (NODES, PODS, VOLUME_CLAIMS):
            await api.create(path, body)
    at = f"{VOLUME_CLAIMS}/data-1/status"
    for change, status in (
        ({"status": {"conditions": [{"type": "Resizing", "status": "True"}]}}, 200),
        ({"status": {"phase": "Lost"}}, 403),
        ({"metadata": {"labels": {"a": "b"}}}, 403),
    ):
        answer = await api.call("PATCH", at, change, headers=NODE_1 | headers_of("PATCH"))
        assert answer.status == status, answer.json
