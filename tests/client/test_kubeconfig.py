import base64
import json
import os
import stat

import pytest
import yaml

from holdfast.client import kubeconfig
from holdfast.client.kubeconfig import read_embedded_credentials
from holdfast.runtime.errors import BadConfiguration

EXEC_VERSION = "client.authentication.k8s.io/v1"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """Hide the kubeconfig of the user and the service account of a pod."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path / "serviceaccount")


def write(path, user=None, cluster=None, **changes):
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://one:6443", **(cluster or {})}},
                     {"name": "d", "cluster": {"server": "http://two:8080"}}],
        "users": [{"name": "u", "user": user if user is not None else {"token": "secret"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}},
                     {"name": "there", "context": {"cluster": "d", "user": "u"}}],
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(config | changes))
    return path


async def test_a_token_and_the_current_context(tmp_path):
    endpoint = await kubeconfig.load(write(tmp_path / "config"))
    assert (endpoint.url, endpoint.authorization_header()) == ("https://one:6443", "Bearer secret")
    assert endpoint.insecure is False


async def test_another_context_by_name(tmp_path):
    endpoint = await kubeconfig.load(write(tmp_path / "config"), "there")
    assert endpoint.url == "http://two:8080"


async def test_certificates_inline_and_as_files(tmp_path):
    data = base64.b64encode(b"-----A-----").decode()
    (tmp_path / "me.crt").write_text("-----B-----")
    (tmp_path / "me.key").write_text("-----C-----")
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    cluster = {"certificate-authority-data": data, "tls-server-name": "kube"}
    endpoint = await kubeconfig.load(write(tmp_path / "config", user, cluster))
    assert endpoint.ca.read_text() == "-----A-----"
    assert (endpoint.cert, endpoint.key) == (tmp_path / "me.crt", tmp_path / "me.key")
    assert endpoint.server_name == "kube" and endpoint.authorization_header() == ""


async def test_an_exec_plugin_is_run_again_to_renew_credentials(tmp_path):
    plugin = tmp_path / "plugin"
    status = {"token": "TOKEN", "expirationTimestamp": "2999-01-01T00:00:00Z"}
    answer = {"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": status}
    plugin.write_text(
        f"#!/bin/sh\nn=$(cat {tmp_path}/n 2>/dev/null || echo 0)\necho $((n+1)) > {tmp_path}/n\n"
        f"echo '{json.dumps(answer)}' | sed s/TOKEN/t$n/\n"
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": EXEC_VERSION, "command": str(plugin)}}
    endpoint = await kubeconfig.load(write(tmp_path / "config", user))
    assert endpoint.authorization_header() == "Bearer t0"
    assert (await endpoint.renew()).authorization_header() == "Bearer t1"


async def test_the_message_of_a_failing_exec_plugin_is_reported(tmp_path):
    arguments = ["-c", "echo log in first >&2; exit 3"]
    user = {"exec": {"apiVersion": EXEC_VERSION, "command": "sh", "args": arguments}}
    with pytest.raises(BadConfiguration, match="log in first"):
        await kubeconfig.load(write(tmp_path / "config", user))


async def test_the_environment_names_the_files(tmp_path, monkeypatch):
    first = write(tmp_path / "first")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}{os.pathsep}{first}")
    assert (await kubeconfig.load()).url == "https://one:6443"


async def test_the_home_directory_is_the_last_resort(tmp_path):
    write(tmp_path / "home" / ".kube" / "config")
    assert (await kubeconfig.load()).url == "https://one:6443"


async def test_inside_a_pod_the_service_account_is_used_and_its_token_reread(tmp_path, monkeypatch):
    from kubernetes_asyncio.config import incluster_config

    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text("first")
    (account / "ca.crt").write_text("-----A-----")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    write(tmp_path / "home" / ".kube" / "config")
    endpoint = await kubeconfig.load()
    assert (endpoint.url, endpoint.authorization_header()) == (
        "https://[fd00::1]:443",
        "Bearer first",
    )
    assert endpoint.ca == account / "ca.crt"
    (account / "token").write_text("second\n")
    assert (await endpoint.renew()).authorization_header() == "Bearer second"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"current-context": "gone"}, "gone"),
        ({"clusters": [{"name": "c", "cluster": {"proxy-url": "x"}}]}, "no `server`"),
        ({"contexts": None}, "config view"),
        ({"users": "text"}, "config view"),
    ],
)
async def test_an_invalid_file_is_named_with_the_problem(tmp_path, changes, words):
    path = write(tmp_path / "config", **changes)
    with pytest.raises(BadConfiguration) as caught:
        await kubeconfig.load(path)
    assert str(path) in caught.value.message and words in caught.value.message


async def test_text_that_is_not_yaml_is_named(tmp_path):
    path = tmp_path / "config"
    path.write_text("{ not: [yaml")
    with pytest.raises(BadConfiguration, match=str(path)):
        await kubeconfig.load(path)


async def test_without_any_configuration_the_error_says_what_to_do():
    with pytest.raises(BadConfiguration, match="holdfast up"):
        await kubeconfig.load()


DATA = {name: base64.b64encode(name.encode()).decode() for name in ("ca", "cert", "key")}
CLUSTER = {"certificate-authority-data": DATA["ca"]}
CERTIFICATE = {"client-certificate-data": DATA["cert"], "client-key-data": DATA["key"]}


def contents(endpoint):
    """The fields of an endpoint, with what is in its files."""
    files = [path and path.read_text() for path in (endpoint.ca, endpoint.cert, endpoint.key)]
    options = (endpoint.server_name, endpoint.insecure, endpoint.proxy)
    return (endpoint.url, endpoint.authorization_header(), *files, *options)


@pytest.mark.parametrize(
    "user", [CERTIFICATE, {"token": "secret"}, {**CERTIFICATE, "token": "secret"}, {}]
)
@pytest.mark.parametrize("server", ["https://one:6443", "https://one:6443/prefix/"])
async def test_embedded_credentials_are_read_as_the_slow_loader_does(tmp_path, user, server):
    path = write(tmp_path / "config", user, {**CLUSTER, "server": server})
    quick = read_embedded_credentials(str(path), None)
    slow = await kubeconfig._from_files(str(path), None)
    assert contents(quick) == contents(slow)
    for private in (quick.ca, quick.cert, quick.key):
        assert private is None or private.parent.stat().st_mode & 0o077 == 0
    loaded = await kubeconfig.load(path)
    assert contents(loaded) == contents(await loaded.renew()) == contents(slow)


@pytest.mark.parametrize(
    ("user", "cluster", "context"),
    [
        ({"tokenFile": "token"}, CLUSTER, None),
        ({"exec": {"command": "sh"}}, CLUSTER, None),
        ({"username": "a", "password": "b"}, CLUSTER, None),
        ({"client-key-data": DATA["key"]}, CLUSTER, None),
        ({"token": 5}, CLUSTER, None),
        (CERTIFICATE, {}, None),
        (CERTIFICATE, {"certificate-authority-data": "no base64"}, None),
        (CERTIFICATE, {**CLUSTER, "insecure-skip-tls-verify": True}, None),
        (CERTIFICATE, {**CLUSTER, "proxy-url": "http://proxy"}, None),
        (CERTIFICATE, {**CLUSTER, "server": "http://one"}, None),
        (CERTIFICATE, CLUSTER, "there"),
        (CERTIFICATE, CLUSTER, "gone"),
    ],
)
def test_everything_else_is_left_to_the_slow_loader(tmp_path, user, cluster, context):
    path = str(write(tmp_path / "config", user, cluster))
    assert read_embedded_credentials(path, context) is None
    assert read_embedded_credentials(f"{path}{os.pathsep}{path}", None) is None


async def test_the_slow_loader_is_imported_on_demand(tmp_path):
    import subprocess
    import sys

    path = write(tmp_path / "config", CERTIFICATE, CLUSTER)
    code = (
        "import asyncio, sys, pathlib; from holdfast.client.kubeconfig import load; "
        f"asyncio.run(load(pathlib.Path({str(path)!r}))); "
        "print('kubernetes_asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
