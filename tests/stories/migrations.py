"""Objects of migrations, what became of them, and a witness of every eviction."""

import json

from holdfast.api.scheme import DISRUPTION_BUDGETS, POD_MIGRATION_JOBS, PODS, RESERVATIONS
from holdfast.client.client import Client
from holdfast.testing import a_deployment, a_node
from holdfast.testing.builders import an_object


def a_job(name, pod, *, labels=None, annotations=None, **spec):
    """A job that moves a pod."""
    ref = {"namespace": pod.namespace, "name": pod.name}
    return an_object(
        POD_MIGRATION_JOBS, name, {"podRef": ref, **spec}, labels=labels, annotations=annotations
    )


def a_budget(labels, **spec):
    """A disruption budget of pods with these labels."""
    body = {"selector": {"matchLabels": labels}, **spec}
    return an_object(DISRUPTION_BUDGETS, "budget", body, namespace="default")


async def run_on(cluster, node, *, cpu="2", app="web", replicas=3, node_cpu="8", **pod):
    """Create a node and a Deployment whose pods all run on it; return them."""
    await cluster.create(a_node(node, cpu=node_cpu))
    await cluster.create(a_deployment(app, replicas=replicas, cpu=cpu, **pod))
    await cluster.advance(5)
    pods = await pods_of(cluster, app)
    assert [p.spec.node_name for p in pods] == [node] * replicas
    return pods


async def web(cluster, *, others=("n2",), **more):
    """Create a Deployment of 3 on n1, then other nodes; return one of its pods."""
    pods = await run_on(cluster, "n1", **more)
    await cluster.create(*(a_node(name, cpu="8") for name in others))
    return pods[0]


async def pods_of(cluster, app="web"):
    """Return the pods of a Deployment that are not going away."""
    listing = (await cluster.client.list(PODS, "default")).items
    return [p for p in listing if p.metadata.labels.get("app") == app and not p.terminating]


async def job_of(cluster, name="j"):
    """Return a job."""
    return await cluster.client.get(POD_MIGRATION_JOBS, name)


async def result_of(cluster, name="j"):
    """Return phase and reason of a job."""
    job = await job_of(cluster, name)
    return job.phase, job.status.reason


async def conditions(cluster, name="j"):
    """Return status and reason of a job's conditions by type."""
    job = await job_of(cluster, name)
    return {c.type: (c.status, c.reason) for c in job.status.conditions}


async def reservations(cluster):
    """Return all reservations."""
    return (await cluster.client.list(RESERVATIONS)).items


async def pause(cluster, name="j", *, paused):
    """Stop a job, or let it go on."""
    await cluster.client.patch(POD_MIGRATION_JOBS, name, {"spec": {"paused": paused}})


class EvictionWitness:
    """A transport that sees every eviction: the room for the pod must be reserved by then."""

    def __init__(self, inner, evicted=None):
        self._inner = inner
        self._client = Client(inner, "witness")
        self._evicted = evicted if evicted is not None else []

    async def send(self, request):
        """Send a request; an eviction by a job only if its reservation is Available."""
        pod = _evicted_pod(request)
        if pod is None:
            return await self._inner.send(request)
        await self._check(*pod)
        response = await self._inner.send(request)
        if response.status < 300:
            self._evicted.append(pod[1])
        return response

    async def _check(self, namespace, name, options):
        ref = (namespace, name)
        jobs = [j for j in (await self._client.list(POD_MIGRATION_JOBS)).items
                if (j.spec.pod_ref.namespace, j.spec.pod_ref.name) == ref]  # fmt: skip
        for job in jobs:
            if job.finished or job.spec.mode == "EvictDirectly":
                continue
            held = await self._client.get(
                RESERVATIONS, job.spec.reservation_options.reservation_ref.name
            )
            assert held.phase == "Available", f"{name} is evicted, its room is {held.phase}"
            assert held.status.node_name
        assert options["preconditions"]["uid"]

    def stream(self, request):
        """Open a stream."""
        return self._inner.stream(request)

    async def close(self):
        """Close the inner transport."""
        await self._inner.close()


def _evicted_pod(request):
    """Return namespace and name of the pod that a request evicts or deletes, and the options."""
    path = request.path.split("/")
    if path[-1] == "eviction" and request.method == "POST":
        return path[-4], path[-2], json.loads(request.body)["deleteOptions"]
    options = json.loads(request.body) if request.method == "DELETE" and request.body else {}
    if path[-2] == "pods" and options.get("gracePeriodSeconds") != 0 and "preconditions" in options:
        return path[-3], path[-1], options  # not as a kubelet, which removes the pod at once
    return None
