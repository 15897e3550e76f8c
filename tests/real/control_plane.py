"""A real etcd and kube-apiserver on loopback, for the tests in this folder and for benchmarks."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import kubectl_program
from free_port import free_port

VERSION = "v1.36.2"
START_SECONDS = 120
RBAC = Path(__file__).parents[2] / "deploy" / "rbac"
SERVICE_ACCOUNT = "system:serviceaccount:kube-system:"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}  # fmt: skip


def binaries(version: str = VERSION) -> Path:
    """Return the directory of the programs that tests/real/build builds."""
    return kubectl_program.binaries() / version


def program(name: str) -> str | None:
    """Return the path of a program: the built one, or the one on PATH, or None."""
    built = binaries() / name
    return str(built) if built.exists() else shutil.which(name)


def other_apiserver(version: str) -> Path | None:
    """Return the kube-apiserver that tests/real/build-apiserver has built, or None."""
    built = binaries(version) / "kube-apiserver"
    return built if built.exists() else None


def new_private_key() -> bytes:
    """Return a new RSA key in PEM, for signing service account tokens."""
    return rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


@dataclass
class ControlPlane:
    """etcd and kube-apiserver with RBAC, an admin token, and a kubeconfig."""

    directory: Path
    fsync: bool = False
    disabled: tuple[str, ...] = ("ServiceAccount",)
    """Disabled admission plugins; no controller manager creates the default service account."""
    audit: bool = False
    """Whether the requests of service accounts are logged, for ``requests_of``."""
    authorization_mode: str = "RBAC"
    flags: tuple[str, ...] = ()
    """More flags of the API server."""
    processes: list[subprocess.Popen] = field(default_factory=list)
    url: str = ""
    token: str = ""
    kubeconfig: Path = Path()

    def start(self) -> ControlPlane:
        """Start both; with other ports if a program took one of them meanwhile."""
        for last in (False, False, True):
            try:
                self._start()
            except BaseException as error:
                self.stop()
                if last or "address already in use" not in str(error):
                    raise
                shutil.rmtree(self.directory / "etcd")
            else:
                break
        return self

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            try:
                # Without etcd the API server would wait much longer before it exits.
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def upgrade(self, version: str, *, without: tuple[str, ...] = ()) -> None:
        """Go on with the API server of another version, without some of the flags."""
        _, server = self.processes
        server.kill()  # it would wait for its watches
        server.wait()
        command = [str(other_apiserver(version)), *map(str, server.args[1:])]
        with (self.directory / f"kube-apiserver-{version}.log").open("wb") as log:
            kept = [each for each in command if each not in without]
            self.processes[1] = subprocess.Popen(kept, stdout=log, stderr=log)
        self._await_ready()

    def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        client, peer, port = free_port(), free_port(), free_port()
        self._run(
            "etcd", "--data-dir", self.directory / "etcd",
            "--listen-client-urls", f"http://127.0.0.1:{client}",
            "--advertise-client-urls", f"http://127.0.0.1:{client}",
            "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", f"default=http://127.0.0.1:{peer}",
            "--log-level", "error", *([] if self.fsync else ["--unsafe-no-fsync"]),
        )  # fmt: skip
        self.token = secrets.token_urlsafe(24)
        tokens = self.directory / "tokens.csv"
        tokens.write_text(f'{self.token},admin,admin-uid,"system:masters"\n')
        key = self.directory / "service-account.key"
        key.write_bytes(new_private_key())
        self._run(
            "kube-apiserver", "--etcd-servers", f"http://127.0.0.1:{client}",
            "--bind-address", "127.0.0.1", "--secure-port", port,
            "--advertise-address", "127.0.0.1",
            "--cert-dir", self.directory / "pki", "--token-auth-file", tokens,
            "--authorization-mode", self.authorization_mode,
            "--service-cluster-ip-range", "10.0.0.0/24",
            "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-account-signing-key-file", key, "--service-account-key-file", key,
            "--disable-admission-plugins", ",".join(self.disabled),
            "--endpoint-reconciler-type", "none", *self._audit_flags(), *self.flags,
        )  # fmt: skip
        self.url = f"https://127.0.0.1:{port}"
        self._await_ready()
        self.kubeconfig = self.directory / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self._kubeconfig()))
        self.kubeconfig.chmod(0o600)

    def _audit_flags(self) -> list[object]:
        if not self.audit:
            return []
        policy = self.directory / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(AUDIT_POLICY))
        return ["--audit-policy-file", policy, "--audit-log-path", self.directory / "audit.log"]

    def service_account(self, name: str) -> Path:
        """Apply deploy/rbac and return a kubeconfig of one of its service accounts."""
        self.kubectl("apply", "-f", str(RBAC))
        token = self.kubectl("create", "token", name, "-n", "kube-system", "--duration=4h").strip()
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(self._kubeconfig(token)))
        path.chmod(0o600)
        return path

    def requests(self) -> list[dict]:
        """Return the audit log: the requests of service accounts so far."""
        lines = (self.directory / "audit.log").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def refused(self) -> list[str]:
        """Return the requests of service accounts that RBAC has refused."""
        return [
            f"{entry['user']['username'].removeprefix(SERVICE_ACCOUNT)}: {entry['verb']} "
            f"{entry['requestURI']}: {entry['responseStatus'].get('message', '')}"
            for entry in self.requests()
            if entry["annotations"]["authorization.k8s.io/decision"] == "forbid"
        ]

    def _run(self, name: str, *arguments: object) -> None:
        command = [program(name), *map(str, arguments)]
        with (self.directory / f"{name}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def _await_ready(self) -> None:
        context = ssl._create_unverified_context()
        request = urllib.request.Request(
            self.url + "/readyz", headers={"Authorization": f"Bearer {self.token}"}
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            if any(p.poll() is not None for p in self.processes) or time.monotonic() > deadline:
                logs = [p.read_text()[-800:] for p in self.directory.glob("*.log")]
                raise RuntimeError("the control plane did not start:\n" + "\n".join(logs))
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(request, context=context, timeout=5) as answer,
            ):
                if answer.status == 200:
                    return
            time.sleep(0.1)

    def _kubeconfig(self, token: str = "") -> dict:
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": "real",
            "clusters": [{"name": "real", "cluster": {
                "server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "admin", "user": {"token": token or self.token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        }  # fmt: skip

    def kubectl(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        done = subprocess.run(
            [program("kubectl"), "--kubeconfig", self.kubeconfig, *arguments],
            input=text, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def get(self, *arguments: str) -> dict:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))
