"""Random events in a cluster with resource policies, reproducible by their seed."""

from contextlib import suppress

from holdfast.api.scheme import NODES, PODS, RESOURCE_POLICIES
from holdfast.runtime.errors import AlreadyExists, NotFound
from holdfast.testing import a_namespace, a_node, a_pod, a_priority_class, a_resource_policy
from laws.random_events import RandomEvents

NODE_NAMES = ("a1", "a2", "b1", "c1")
NAMESPACES = ("web", "web", "web", "db")
TIERS = ("od", "od", "spot", "spot", None)
MATCH_POLICIES = ({"ignoreTerminatingPod": True}, {"ignorePreviousPod": True})
_EMPTY_SELECTOR = {"matchLabels": None, "matchExpressions": None}
MOST_PODS = 30
"""With more, nodes would lack CPU rather than units places."""
CLASSES = {"low": -5, "high": 1000}


class PolicyLife(RandomEvents):
    """Random events of nodes, pods and resource policies.

    Without ``changes`` no cap can be exceeded from outside: nodes stay, nodes and pods keep their
    labels, policies their specs, and no pod is bound by others.
    """

    def __init__(
        self, cluster, seed, *, changes=True, resources=False, rules=("LackResourceOrExceedMax",)
    ):
        super().__init__(cluster, seed)
        self.changes = changes
        self.resources = resources
        self.rules = rules

    async def begin(self):
        """Create namespaces, priority classes, nodes and policies."""
        classes = [a_priority_class(name, value) for name, value in CLASSES.items()]
        await self.cluster.create(a_namespace("web"), a_namespace("db"), *classes, settle=False)
        for name in NODE_NAMES:
            await self._new_node(name)
        for name in ("p", "q"):
            await self._new_policy(name)
        await self.cluster.settle()

    async def step(self):
        """Apply a few random events at once, then settle."""
        events = {
            self._new_pods: 40,
            self._gone_pod: 16,
            self._pass_time: 18,
            self._restart_components: 2,
        }
        if self.changes:
            events |= {
                self._relabelled_pod: 8,
                self._relabelled_node: 12,
                self._edited_policy: 8,
                self._bound_pod: 4,
                self._new_node: 4,
                self._gone_node: 2,
                self._restart_everything: 1,
            }
        await self.apply(events)

    def _labels(self):
        pick = self.rng.choice
        labels = {"app": pick(("web", "web", "web", "api")), "v": pick((None, "1", "2"))}
        labels["team"] = pick((None, None, None, "x"))
        return {key: value for key, value in labels.items() if value is not None}

    def _pod(self, **more):
        self.count += 1
        pick = self.rng.choice
        notes = pick(
            ({}, {}, {}, {"holdfast.dev/run-for": "5s"}, {"holdfast.dev/stop-after": "8s"})
        )
        return a_pod(
            f"p{self.count}",
            namespace=pick(NAMESPACES),
            cpu=pick(("1", "1", "1", "2", "500m")),
            labels=self._labels(),
            annotations=notes,
            priority_class_name=pick((None, None, None, None, "low", "high")),
            **more,
        )

    async def _new_pods(self):
        found = (await self.cluster.client.list(PODS)).items
        if len(found) >= MOST_PODS:
            return [await self._gone_pod() for _ in range(MOST_PODS // 3)]
        made = [self._pod() for _ in range(self.rng.randint(1, 4))]
        await self.cluster.create(*made, settle=False)
        return [
            (p["metadata"]["name"], p["metadata"]["namespace"], p["metadata"]["labels"])
            for p in made
        ]

    async def _bound_pod(self):
        """Create a pod that another scheduler has bound."""
        made = self._pod(node=self.rng.choice(NODE_NAMES), scheduler_name="other")
        # Binding checks no capacity: with a request it could overcommit the node.
        del made["spec"]["containers"][0]["resources"]
        await self.cluster.create(made, settle=False)
        return made["metadata"], made["spec"]["nodeName"]

    async def _some(self, resource):
        found = (await self.cluster.client.list(resource)).items
        there = sorted(found, key=lambda obj: (obj.namespace, obj.name))
        return self.rng.choice(there) if there else None

    async def _gone_pod(self):
        pod = await self._some(PODS)
        if pod is None:
            return "none there"
        grace = self.rng.choice((None, None, 0))
        with suppress(NotFound):
            await self.cluster.client.delete(PODS, pod.name, pod.namespace, grace_seconds=grace)
        return pod.key, grace

    async def _relabelled_pod(self):
        pod = await self._some(PODS)
        if pod is None:
            return "none there"
        labels = {"app": None, "v": None, "team": None} | self._labels()
        with suppress(NotFound):
            meta = {"metadata": {"labels": labels}}
            await self.cluster.client.patch(PODS, pod.name, meta, pod.namespace)
        return pod.key, labels

    async def _relabelled_node(self):
        node = await self._some(NODES)
        if node is None:
            return "none there"
        labels = self._node_labels()
        await self.cluster.client.patch(NODES, node.name, {"metadata": {"labels": labels}})
        return node.name, labels

    def _node_labels(self):
        return {"tier": self.rng.choice(TIERS), "disk": self.rng.choice((None, "fast"))}

    async def _new_node(self, name=None):
        name = name or self.rng.choice(NODE_NAMES)
        # A node that comes back has the same labels, unless they may change.
        labels = {"tier": {"a": "od", "b": "spot"}.get(name[0]), "disk": None}
        labels = {k: v for k, v in labels.items() if v is not None}
        with suppress(AlreadyExists):
            await self.cluster.create(a_node(name, cpu="8", pods="40", labels=labels), settle=False)
        return name

    async def _gone_node(self):
        name = self.rng.choice(NODE_NAMES)
        with suppress(NotFound):
            await self.cluster.client.delete(NODES, name)
        return name

    async def _new_policy(self, name):
        namespace = self.rng.choice(NAMESPACES)
        made = a_resource_policy(name, namespace=namespace, **self._spec(name))
        with suppress(AlreadyExists):
            await self.cluster.create(made, settle=False)
        return made

    async def _edited_policy(self):
        """Edit or delete a policy, or create one."""
        policy = await self._some(RESOURCE_POLICIES)
        if policy is None or self.rng.random() < 0.25:
            return await self._new_policy(self.rng.choice("pqr"))
        if self.rng.random() < 0.25:
            await self.cluster.client.delete(RESOURCE_POLICIES, policy.name, policy.namespace)
            return "gone", policy.key
        made = a_resource_policy("x", **self._spec(policy.name))["spec"]
        if self.rng.random() < 0.5:
            made = {"units": made["units"]}
        else:
            # A merge patch: what is not mentioned stays.
            made["podSelector"] = _EMPTY_SELECTOR | made["podSelector"]
            made["whenTryNextUnits"] = {"timeout": None} | made["whenTryNextUnits"]
            made["matchPolicy"] = {"ignoreTerminatingPod": None, "ignorePreviousPod": None} | made[
                "matchPolicy"
            ]
        await self.cluster.client.patch(
            RESOURCE_POLICIES, policy.name, {"spec": made}, policy.namespace
        )
        return policy.key, made

    def _spec(self, name):
        pick = self.rng.choice
        selectors = [
            {"matchLabels": {"app": "web"}},
            {"matchLabels": {"app": "web"}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["api"]}]},
            {},
        ]
        others = [{"matchLabels": {"team": "x"}}, {"matchLabels": {"app": "api"}}]
        return {
            "pod_selector": pick(selectors if name == "p" else others),
            "match_label_keys": pick(([], ["v"])),
            "match_policy": pick(({}, *MATCH_POLICIES)),
            "strategy": pick(("prefer", "required", "required")),
            "units": [self._unit(i) for i in range(self.rng.randint(1, 3))],
            "when_try_next_units": self._when_try_next_units(),
            "preempt_policy": pick(("AfterAllUnits", "AfterAllUnits", "BeforeNextUnit")),
        }

    def _when_try_next_units(self):
        chosen = {"policy": self.rng.choice(self.rules)}
        return chosen | ({"timeout": "20s"} if chosen["policy"] == "TimeoutOrExceedMax" else {})

    def _unit(self, number):
        pick = self.rng.choice
        selectors = [
            {"matchLabels": {"tier": "od"}},
            {"matchLabels": {"tier": "spot"}},
            {"matchLabels": {"disk": "fast"}},
            {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
            {},
        ]
        chosen = selectors[number] if number < 2 and pick((True, True, False)) else pick(selectors)
        made = {"name": f"u{number}", "priority": pick((0, 1, 5, 5, 9)), "nodeSelector": chosen}
        made |= pick(({}, {"maxCount": pick((0, 1, 2, 2, 3))}, {"maxCount": pick((1, 2, 3))}))
        if self.resources:
            made |= pick(({}, {}, {"maxResources": {"cpu": pick(("2", "3"))}}))
        return made
