"""What tests of separate processes ask them, and the configuration they start from."""

import urllib.error
import urllib.request

from holdfast.api.resource import Resource

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", dict)


def asked(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
