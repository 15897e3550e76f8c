"""Pods with resources of their own, and Jobs, for the embedded server and a real kube-apiserver."""

SPACE = "/api/v1/namespaces/default"
PODS = f"{SPACE}/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"


def amounts(requests=None, limits=None, **more):
    parts = {"requests": requests, "limits": limits, **more}
    return {name: part for name, part in parts.items() if part is not None}


def container(name="c", **resources):
    return {"name": name, "image": "i", "resources": amounts(**resources)}


def pod(resources, *containers, **spec):
    spec = {"containers": list(containers) or [container()], "resources": resources} | spec
    return PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def job_spec(restart="Never", pod=None, **spec):
    template = {"containers": [container()], "restartPolicy": restart} | (pod or {})
    if restart is None:
        del template["restartPolicy"]
    return {"template": {"spec": template}} | spec


def job(*args, **options):
    spec = job_spec(*args, **options)
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    return JOBS, body


def cron_job(*args, **options):
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": job_spec(*args, **options)}}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}
    return CRON_JOBS, body


HUGE = "hugepages-2Mi"
SIDECAR = {"restartPolicy": "Always"}
GOOD = {
    "amounts": pod(amounts({"cpu": "2", "memory": "1Gi"}, {"cpu": "3"})),
    "no amounts": pod({}),
    "sum": pod(amounts({"cpu": "2"}), *(container(f"c{i}", requests={"cpu": "1"}) for i in (0, 1))),
    "huge": pod(amounts({"cpu": "1", HUGE: "4Mi"}, {HUGE: "4Mi"})),
    "job": job(),
    "failing job": job("OnFailure", backoffLimit=0),
    "cron job": cron_job(),
}
BAD = {
    "name": pod(amounts({"example.com/x": "1", "pods": "1", "what": "1", "-": "1"})),
    "storage": pod(amounts({"ephemeral-storage": "1Gi"}, {"ephemeral-storage": "1Gi"})),
    "negative": pod(amounts({"cpu": "-1"})),
    "above limit": pod(amounts({"cpu": "2"}, {"cpu": "1500m"})),
    "claims": pod(
        amounts({"cpu": "1"}, claims=[{"name": "x"}]),
        resourceClaims=[{"name": "x", "resourceClaimName": "x"}],
    ),
    "unknown claims": pod(amounts({"cpu": "1"}, claims=[{"name": "x"}])),
    "windows": pod(amounts({"example.com/x": "1"}), os={"name": "windows"}),
    "less than its containers": pod(
        amounts({"cpu": "1", "memory": "1Gi"}),
        container("a", requests={"cpu": "600m", "memory": "600Mi"}),
        container("b", requests={"cpu": "600m", "memory": "600Mi"}),
    ),
    "less than its init container": pod(
        amounts({"cpu": "1"}),
        container("a", requests={"cpu": "600m"}),
        initContainers=[
            container("s", requests={"cpu": "600m"}) | SIDECAR,
            container("i", requests={"cpu": "2"}),
        ],
    ),
    "container above its limit": pod(
        amounts({"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}),
        container("a", limits={"cpu": "1", "memory": "1Gi"}),
        container("b", limits={"cpu": "2", "memory": "2Gi"}, requests={"cpu": "0", "memory": "1"}),
    ),
    "huge without cpu": pod(amounts({HUGE: "4Mi"}, {HUGE: "4Mi"})),
    "huge, odd": pod(amounts({"cpu": "1", HUGE: "3Mi"}, {HUGE: "3Mi"})),
    "huge, unequal": pod(amounts({"cpu": "1", HUGE: "2Mi"}, {HUGE: "4Mi"})),
    "huge, no limit": pod(amounts({"cpu": "1", HUGE: "2Mi"})),
    "huge, less than its containers": pod(
        amounts({"cpu": "1", HUGE: "2Mi"}, {HUGE: "2Mi"}),
        container("a", requests={"cpu": "1", HUGE: "2Mi"}, limits={HUGE: "2Mi"}),
        container("b", requests={HUGE: "2Mi", "memory": "1"}, limits={HUGE: "2Mi"}),
    ),
    "policy of a pod": pod({}, restartPolicy="Sometimes"),
    "job without policy": job(None),
    "job with another policy": job("Always"),
    "job with a wrong policy": job("Sometimes"),
    "job without containers": job(pod={"containers": []}),
    "job without template": (JOBS, job()[1] | {"spec": {"parallelism": 1}}),
    "job with negative counts": job(
        parallelism=-1,
        completions=-1,
        backoffLimit=-1,
        activeDeadlineSeconds=-1,
        ttlSecondsAfterFinished=-1,
    ),
    "job with wrong resources": job(
        pod={"containers": [container(requests={"cpu": "2"}, limits={"cpu": "1"})]}
    ),
    "job with wrong resources of the pod": job(pod={"resources": amounts({"pods": "1"})}),
    "job with a wrong claim": job(
        pod={"resourceClaims": [{"name": "X", "resourceClaimName": "x"}]}
    ),
    "cron job without policy": cron_job(None),
    "cron job with a wrong name": cron_job(pod={"containers": [container("A")]}),
    "cron job without schedule": (CRON_JOBS, cron_job()[1] | {"spec": {"jobTemplate": {}}}),
    "cron job with negative counts": cron_job(parallelism=-1),
}
