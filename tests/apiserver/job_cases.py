"""Jobs, CronJobs and other workloads, for the embedded server and a real kube-apiserver."""

from apiserver.pod_resource_cases import cron_job, job

APPS = "/apis/apps/v1/namespaces/default"


def indexed(completions=4, **spec):
    return job(completionMode="Indexed", completions=completions, parallelism=2, **spec)


def failing(*rules, **spec):
    return job(podFailurePolicy={"rules": list(rules)}, **spec)


def on_exit(operator="In", values=(1,), action="FailJob", **more):
    return {
        "action": action,
        "onExitCodes": {"operator": operator, "values": list(values), **more},
    }


def on_condition(*conditions, action="Ignore"):
    return {"action": action, "onPodConditions": list(conditions)}


def succeeding(*rules, completions=4, **spec):
    return indexed(completions, successPolicy={"rules": list(rules)}, **spec)


def scheduled(schedule="* * * * *", **spec):
    path, body = cron_job()
    body["spec"] |= {"schedule": schedule, **spec}
    return path, body


def named(case, name):
    path, body = case
    body["metadata"]["name"] = name
    return path, body


def workload(kind, plural, **pod):
    labels = {"app": "w"}
    template = {"containers": [{"name": "c", "image": "i"}], **pod}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template},
    }
    if kind == "StatefulSet":
        spec["serviceName"] = "w"
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    return f"{APPS}/{plural}", body


WORKLOADS = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
}
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}
GOOD = {
    **{
        f"{kind} Always": workload(kind, plural, restartPolicy="Always")
        for kind, plural in WORKLOADS.items()
    },
    "indexed": indexed(),
    "by index": indexed(backoffLimitPerIndex=1, maxFailedIndexes=2),
    "failure": failing(
        on_exit(), on_exit("NotIn", [0, 3], "Count", containerName="c"), on_condition(DISRUPTED)
    ),
    "fail index": indexed(
        backoffLimitPerIndex=1, podFailurePolicy={"rules": [on_exit(action="FailIndex")]}
    ),
    "success": succeeding(
        {"succeededIndexes": "0,2-3", "succeededCount": 2}, {"succeededCount": 1}
    ),
    "replaced when failed": job(podReplacementPolicy="Failed"),
    "managed by another": job(managedBy="example.com/controller"),
    "failure policy without rules": job(podFailurePolicy={}),
    "indexed once": job(completionMode="Indexed"),
    "no indexes": succeeding({"succeededIndexes": ""}),
    "concurrency by default": scheduled(concurrencyPolicy=""),
    **{
        f"schedule {text}": scheduled(text)
        for text in (
            "*/5 0-6,22 1,15 * mon-fri",
            "@daily",
            "@every 1h30m",
            "0 0 ? * 6",
            "1,,2 * * * *",
            "+5 * * * *",
            ", * * * *",
            "*-5 * * * *",
            "@every -1h",
            "5-7/100 * * * *",
            "5/15 * * JAN *",
            "0 0 31 12 0",
        )
    },
    "zone": scheduled(timeZone="Europe/Amsterdam"),
    "zone UTC": scheduled(timeZone="Etc/UTC"),
    "history": scheduled(
        startingDeadlineSeconds=0,
        successfulJobsHistoryLimit=0,
        failedJobsHistoryLimit=0,
        concurrencyPolicy="Forbid",
    ),
    "longest name": named(scheduled(), "n" * 52),
}
BAD = {
    **{
        f"{kind} {policy}": workload(kind, plural, restartPolicy=policy)
        for kind, plural in WORKLOADS.items()
        for policy in ("Never", "OnFailure", "Odd")
    },
    **{
        f"{kind} deadline": workload(kind, plural, activeDeadlineSeconds=5)
        for kind, plural in WORKLOADS.items()
    },
    "mode": job(completionMode="Odd"),
    "mode empty": job(completionMode=""),
    "no completions": job(completionMode="Indexed", parallelism=2),
    "max failed not indexed": job(maxFailedIndexes=1),
    "max failed not indexed either": job(maxFailedIndexes=1, backoffLimitPerIndex=1),
    "many parallel by index": job(
        completionMode="Indexed",
        completions=200000,
        parallelism=10001,
        backoffLimitPerIndex=1,
        maxFailedIndexes=1,
    ),
    "success neither indexed": job(
        completions=2, successPolicy={"rules": [{"succeededIndexes": "0"}, {}]}
    ),
    "success policy without rules": job(completions=2, successPolicy={}),
    "long indexes": succeeding(
        {"succeededIndexes": ",".join(map(str, range(20_000)))}, completions=20_000
    ),
    "success policy alone": job(completions=2, successPolicy={"rules": []}),
    "unordered and duplicate values": failing(on_exit("NotIn", [0, 3, 2, 3])),
    "too much indexes": succeeding({"succeededIndexes": "x", "succeededCount": 5}),
    "large index": succeeding({"succeededIndexes": "0-99999999999999999999"}),
    "no manager": job(managedBy=""),
    "managed by nothing": job(managedBy="example.com/"),
    "managed by no domain": job(managedBy="/x"),
    "managed by a wrong domain": job(managedBy="Odd_.com/x"),
    "managed by a wrong path": job(managedBy="example.com/a b"),
    "managed by a query": job(managedBy="example.com/a?b"),
    "no schedule": scheduled(""),
    "many parallel": job(completionMode="Indexed", completions=200000, parallelism=100001),
    "long host name": named(indexed(1000), "n" * 60),
    "per index": job(backoffLimitPerIndex=1),
    "max failed alone": indexed(maxFailedIndexes=1),
    "negative per index": indexed(backoffLimitPerIndex=-1, maxFailedIndexes=-1),
    "more failed than completions": indexed(backoffLimitPerIndex=1, maxFailedIndexes=5),
    "too many failed": indexed(200000, backoffLimitPerIndex=1, maxFailedIndexes=100001),
    "many without max": indexed(200000, backoffLimitPerIndex=1),
    "many with large max": indexed(200000, backoffLimitPerIndex=1, maxFailedIndexes=10001),
    "failure OnFailure": failing(on_exit(), restart="OnFailure"),
    "failure rules": failing(*[on_exit(values=[i + 1]) for i in range(21)]),
    "failure action": failing(on_exit(action="Odd")),
    "failure no action": failing(on_exit(action="")),
    "failure both": failing(on_exit() | on_condition(DISRUPTED, action="Ignore")),
    "failure neither": failing({"action": "Ignore"}),
    "fail index without limit": failing(on_exit(action="FailIndex")),
    "operator": failing(on_exit("Odd")),
    "no operator": failing(on_exit("")),
    "no values": failing(on_exit(values=[])),
    "duplicate values": failing(on_exit(values=[1, 1])),
    "unordered values": failing(on_exit(values=[3, 2])),
    "zero in": failing(on_exit(values=[0, 1])),
    "256 values": failing(on_exit(values=range(1, 257))),
    "container": failing(on_exit(containerName="odd")),
    "no conditions": failing(on_condition()),
    "21 conditions": failing(
        on_condition(*[{"type": f"T{i}", "status": "True"} for i in range(21)])
    ),
    "condition": failing(
        on_condition({"type": "a b", "status": "Odd"}, {"type": "", "status": ""})
    ),
    "success not indexed": job(completions=2, successPolicy={"rules": [{"succeededCount": 1}]}),
    "success no rules": succeeding(),
    "success rules": succeeding(*[{"succeededCount": 1}] * 21),
    "success empty": succeeding({}),
    "success count": succeeding(
        {"succeededCount": -1}, {"succeededCount": 5}, {"succeededCount": 0}
    ),
    "success more than indexes": succeeding({"succeededIndexes": "0-1", "succeededCount": 3}),
    **{
        f"indexes {text!r}": succeeding({"succeededIndexes": text})
        for text in (
            "x",
            "0,",
            "+1,+0",
            "3-1",
            "1-1",
            "2,1",
            "1,1",
            "0-4",
            "4",
            "-1",
            "1-2-3",
            "0-2,2",
            "1-x",
            "a-2",
            "0 1",
        )
    },
    "replacement": job(podReplacementPolicy="Odd"),
    "replacement empty": job(podReplacementPolicy=""),
    "replacement with failure": failing(on_exit(), podReplacementPolicy="TerminatingOrFailed"),
    "managed": job(managedBy="odd"),
    "managed long": job(managedBy="example.com/" + "x" * 60),
    **{
        f"schedule {text!r}": scheduled(text)
        for text in (
            "a",
            "0 0 ? * 7",
            "*/-5 * * * *",
            "TZ= 0 * * *",
            "CRON_TZ=Local 0 * *",
            "TZ=UTC @odd",
            "@every 5",
            "@every 5y",
            "@Daily",
            "* * * *",
            "* * * * * *",
            "61 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "*/0 * * * *",
            "5-1 * * * *",
            "1-2-3 * * * *",
            "1/2/3 * * * *",
            "@bogus",
            "@every x",
            "@every",
            "TZ=UTC 0 * * * *",
            "CRON_TZ=UTC 0 * * * *",
            "TZ=Odd/Zone 0 * * * *",
            "x * * * *",
            "-1 * * * *",
            "1-x * * * *",
            "*/x * * * *",
            " ",
            "* * * foo *",
            "1- * * * *",
            "99999999999999999999 * * * *",
            "30 * * * mon-xyz",
            "TZ=UTC",
        )
    },
    "zone empty": scheduled(timeZone=""),
    "zone local": scheduled(timeZone="Local"),
    "zone lower": scheduled(timeZone="local"),
    "zone unknown": scheduled(timeZone="Odd/Zone"),
    "zone path": scheduled(timeZone="../etc/passwd"),
    "zone space": scheduled(timeZone="a b"),
    "zone and TZ": scheduled("TZ=UTC 0 * * * *", timeZone="Etc/UTC"),
    "concurrency": scheduled(concurrencyPolicy="Odd"),
    "negative": scheduled(
        startingDeadlineSeconds=-1, successfulJobsHistoryLimit=-1, failedJobsHistoryLimit=-1
    ),
    "long name": named(scheduled(), "n" * 53),
    "manual": cron_job(manualSelector=True),
    "selector": cron_job(selector={"matchLabels": {"a": "b"}}),
    "cron failure": cron_job(podFailurePolicy={"rules": [{"action": "Ignore"}]}),
}
