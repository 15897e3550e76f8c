"""Random events of devices, claims, classes and taints, reproducible by their seed."""

from contextlib import suppress

from holdfast.api.scheme import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from holdfast.client.client import PatchType
from holdfast.runtime.errors import AlreadyExists, HoldfastError, NotFound
from holdfast.testing import (
    a_claim,
    a_claim_template,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_priority_class,
    a_slice,
    a_taint_rule,
)
from laws.random_events import RandomEvents

NODE_NAMES = ("n0", "n1", "n2")
GPU, CARD = "example.com/gpu", "example.com/card"
STOP_AFTER = "holdfast.dev/stop-after"
CONDITIONS = {
    "bindingConditions": ["example.com/attached"],
    "bindingFailureConditions": ["example.com/failed"],
}
TEMPLATE = "two-gpus"


class DeviceLife(RandomEvents):
    """Random events of nodes, pods and everything of resource.k8s.io."""

    async def begin(self):
        """Create two nodes with devices, classes, a template and priorities."""
        await self.cluster.create(
            a_device_class("gpu", extended_resource_name=GPU),
            a_device_class("card", driver="card.example.com", extended_resource_name=CARD),
            a_claim_template(TEMPLATE, count=2),
            a_priority_class("low", 10), a_priority_class("high", 1000),
            settle=False,
        )  # fmt: skip
        for name in NODE_NAMES[:2]:
            await self._node(name)
        await self.cluster.settle()

    async def step(self):
        """Apply a few random events at once, then settle."""
        await self.apply(
            {
                self._pod_with_claim: 20, self._pod_with_shared_claim: 8,
                self._pod_with_template: 8, self._pod_with_resource: 20, self._gone_pod: 22,
                self._gone_claim: 4, self._edited_slice: 5, self._gone_slice: 2,
                self._gone_class: 2, self._taint_rule: 3, self._new_node: 4, self._gone_node: 2,
                self._report: 10, self._pass_time: 20, self._restart_components: 3,
                self._restart_everything: 1,
            }
        )  # fmt: skip

    async def finish(self):
        """Publish everything again that is needed to bind pods, and let drivers answer."""
        await self._classes()
        for _ in range(6):
            for claim in (await self.cluster.client.list(RESOURCE_CLAIMS)).items:
                await self._report_on(claim, "example.com/attached")
            await self.cluster.advance(12)

    def _name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    async def _create(self, *objects):
        for raw in objects:
            with suppress(AlreadyExists):
                await self.cluster.create(raw, settle=False)

    # --- pods and claims

    def _pod(self, name, **more):
        notes = {STOP_AFTER: "8s"} if self.rng.random() < 0.3 else {}
        priority = self.rng.choice(("", "low", "low", "high"))
        return a_pod(
            name, cpu=self.rng.choice(("100m", "1")), annotations=notes,
            priority_class_name=priority, **more,
        )  # fmt: skip

    async def _pod_with_claim(self):
        name = self._name("d")
        claim = a_claim(name, **self._wanted())
        uses = [{"name": "dev", "resourceClaimName": name}]
        await self._create(claim, self._pod(name, resource_claims=uses))
        return f"{name} {claim['spec']}"

    def _wanted(self):
        kind = self.rng.choice(("gpu", "gpu", "card", "share", "either", "all", "tolerant"))
        exactly = {"deviceClassName": "gpu"}
        match kind:
            case "share":
                amount = {"memory": self.rng.choice(("2Gi", "5Gi"))}
                exactly = {"deviceClassName": "card", "capacity": {"requests": amount}}
            case "card":
                exactly = {"deviceClassName": "card"}
            case "all":
                exactly["allocationMode"] = "All"
            case "tolerant":
                exactly["tolerations"] = [{"operator": "Exists"}]
            case "either":
                subs = [{"name": "two", "deviceClassName": "gpu", "count": 2},
                        {"name": "one", "deviceClassName": "card"}]  # fmt: skip
                return {"requests": [{"name": "r", "firstAvailable": subs}]}
        return {"requests": [{"name": "r", "exactly": exactly}]}

    async def _pod_with_shared_claim(self):
        name, claim = self._name("s"), self.rng.choice(("shared0", "shared1"))
        uses = [{"name": "dev", "resourceClaimName": claim}]
        await self._create(a_claim(claim), self._pod(name, resource_claims=uses))
        return f"{name} {claim}"

    async def _pod_with_template(self):
        name = self._name("t")
        uses = [{"name": "dev", "resourceClaimTemplateName": TEMPLATE}]
        await self._create(self._pod(name, resource_claims=uses))
        return name

    async def _pod_with_resource(self):
        name, resource = self._name("x"), self.rng.choice((GPU, GPU, CARD))
        amounts = {resource: self.rng.choice(("1", "1", "2"))}
        await self._create(self._pod(name, requests=amounts, limits=amounts))
        return f"{name} {amounts}"

    async def _gone_pod(self):
        return await self._gone(PODS, "default")

    async def _gone_claim(self):
        return await self._gone(RESOURCE_CLAIMS, "default")

    # --- devices

    async def _node(self, name):
        node = a_node(name, cpu="3", memory="8Gi", pods="8")
        await self._create(node, *self._slices(name))

    def _slices(self, name):
        """Return the slices of a node: devices, shared cards and partitions."""
        gpus = [a_device(f"gpu-{i}") for i in range(2)]
        gpus.append(a_device("slow", **CONDITIONS))
        card = a_device("card-0", capacity={"memory": "8Gi"}, allowMultipleAllocations=True)
        uses = [{"counterSet": "set", "counters": {"units": {"value": "2"}}}]
        parts = [a_device(f"part-{i}", consumesCounters=uses) for i in range(3)]
        counters = a_slice(f"{name}-counters", node=name, pool=f"{name}-parts", slices=2)
        del counters["spec"]["devices"]
        counters["spec"]["sharedCounters"] = [
            {"name": "set", "counters": {"units": {"value": "4"}}}
        ]
        return (
            a_slice(f"{name}-gpus", node=name, devices=gpus),
            a_slice(f"{name}-cards", node=name, devices=[card], driver="card.example.com"),
            a_slice(f"{name}-parts", node=name, devices=parts, pool=f"{name}-parts", slices=2),
            counters,
        )

    async def _new_node(self):
        name = self.rng.choice(NODE_NAMES)
        await self._node(name)
        return name

    async def _gone_node(self):
        return await self._gone(NODES)

    async def _gone_slice(self):
        return await self._gone(RESOURCE_SLICES)

    async def _edited_slice(self):
        """Taint a device of a slice, or remove its taints."""
        slices = (await self.cluster.client.list(RESOURCE_SLICES)).items
        there = [piece for piece in slices if piece.spec.devices]
        if not there:
            return None
        chosen = self.rng.choice(sorted(there, key=lambda s: s.name))
        effect = self.rng.choice(("", "NoSchedule", "NoExecute"))
        at = self.rng.randrange(len(chosen.spec.devices))
        path = f"/spec/devices/{at}/taints"
        taints = [{"key": "example.com/broken", "effect": effect}] if effect else []
        patch = [{"op": "add", "path": path, "value": taints}]
        with suppress(HoldfastError):
            await self.cluster.client.patch(
                RESOURCE_SLICES, chosen.name, patch, type=PatchType.JSON
            )
        return f"{chosen.name} {at} {effect}"

    async def _classes(self):
        await self._create(
            a_device_class("gpu", extended_resource_name=GPU),
            a_device_class("card", driver="card.example.com", extended_resource_name=CARD),
        )

    async def _gone_class(self):
        """Delete a class, or create both again."""
        if self.rng.random() < 0.5:
            return await self._classes()
        return await self._gone(DEVICE_CLASSES)

    async def _taint_rule(self):
        if self.rng.random() < 0.6:
            return await self._gone(DEVICE_TAINT_RULES)
        name, effect = self._name("rule"), self.rng.choice(("NoSchedule", "NoExecute"))
        rule = a_taint_rule(name, effect=effect, driver="gpu.example.com", device="gpu-1")
        await self._create(rule)
        return f"{name} {effect}"

    async def _report(self):
        """Let a driver report that a device is attached, or that this failed."""
        claims = (await self.cluster.client.list(RESOURCE_CLAIMS)).items
        waiting = [c for c in claims if _conditional(c)]
        if not waiting:
            return None
        claim = self.rng.choice(sorted(waiting, key=lambda c: c.name))
        kind = self.rng.choice(("example.com/attached",) * 3 + ("example.com/failed",))
        await self._report_on(claim, kind)
        return f"{claim.name} {kind}"

    async def _report_on(self, claim, kind):
        condition = {"type": kind, "status": "True", "reason": "Driver", "message": "",
                     "lastTransitionTime": "2024-01-01T00:00:00Z"}  # fmt: skip
        devices = [
            {"driver": r.driver, "pool": r.pool, "device": r.device, "conditions": [condition]}
            for r in _conditional(claim)
        ]
        if devices:
            with suppress(HoldfastError):
                await self.cluster.client.patch(
                    RESOURCE_CLAIMS, claim.name, {"status": {"devices": devices}}, "default",
                    subresource="status", type=PatchType.MERGE,
                )  # fmt: skip

    async def _gone(self, resource, namespace=""):
        there = sorted(obj.name for obj in (await self.cluster.client.list(resource)).items)
        if not there:
            return None
        name = self.rng.choice(there)
        with suppress(NotFound):
            await self.cluster.client.delete(resource, name, namespace)
        return name


def _conditional(claim):
    allocation = claim.status.allocation
    return [r for r in allocation.devices.results if r.binding_conditions] if allocation else []
