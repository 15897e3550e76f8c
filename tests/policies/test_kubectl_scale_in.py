"""Scale-in with the real kubectl, in a cluster of `holdfast up`."""

import json
import time

import pytest

from holdfast.testing import a_deployment
from policies.objects import WEB, common_nodes, policy
from stories.transcript import run, running_cluster

COST = r".metadata.annotations.controller\\.kubernetes\\.io/pod-deletion-cost"
PODS = f"kubectl get pods -n {WEB} --no-headers -o custom-columns=N:.spec.nodeName,C:{COST}"


def until(expected, env, seconds=40):
    """Wait until these are the letters of the pods' nodes with the deletion costs."""
    deadline = time.monotonic() + seconds
    while True:
        lines = [line.split() for line in run(PODS, env).splitlines()]
        if sorted((line[0][:1], line[1]) for line in lines if len(line) > 1) == expected:
            return
        assert time.monotonic() < deadline, lines
        time.sleep(0.3)  # a process is started for every try


@pytest.mark.long
@pytest.mark.kubectl
def test_P040_kubectl_scales_a_deployment_in_from_the_lowest_unit(tmp_path):
    items = [*common_nodes(), policy(), a_deployment("web", replicas=6, namespace=WEB, cpu="1")]
    manifest = tmp_path / "objects.json"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    od, spot, other = ("a", "200"), ("b", "100"), ("c", "0")
    with running_cluster(tmp_path, "--nodes", "0") as env:
        run(f"kubectl apply -f {manifest}", env)
        until([od, od, spot, spot, spot, other], env)
        ready = "--for=jsonpath={.status.readyReplicas}=6"
        run(f"kubectl wait -n {WEB} deployment/web {ready} --timeout=40s", env)
        run(f"kubectl scale -n {WEB} deployment web --replicas 3", env)
        until([od, od, spot], env)
        run(f"kubectl scale -n {WEB} deployment web --replicas 2", env)
        until([od, od], env)
