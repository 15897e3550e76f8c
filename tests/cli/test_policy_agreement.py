"""``holdfast policy`` decides and counts as the scheduler and the controller do."""

import random

import pytest

from holdfast.api.resource_policy import NEXT_UNITS_POLICIES
from holdfast.api.scheme import PODS, RESOURCE_POLICIES
from holdfast.cli.connection import list_all
from holdfast.cli.policy.next_pod import NextPod
from holdfast.cli.policy.reading import compile_one, require_usage
from holdfast.cli.policy.why import explain
from holdfast.cli.scheduler_configuration import load_configuration
from holdfast.state.resource_policies.policy_usage import headroom_text, usage_text
from holdfast.testing import a_unit
from holdfast.testing.harness import Harness
from policies.objects import classes, common_nodes, pod, policy
from soak_size import SEED, rounds

CONFIGURATION = load_configuration(None)


def a_random_policy(rng):
    units = [
        a_unit(
            f"u{i}",
            rng.choice([0, 1, 1, 2, 5]),
            nodes=rng.choice([{"tier": "od"}, {"tier": "spot"}, {}]),
            max_count=rng.choice([None, 0, 1, 2, 3]),
            max_resources=rng.choice([None, None, {"cpu": "3"}]),
        )
        for i in range(rng.randint(1, 4))
    ]
    return policy(
        units=units,
        strategy=rng.choice(["prefer", "required"]),
        match_label_keys=rng.choice([None, ["v"]]),
        match_policy={"ignoreTerminatingPod": rng.random() < 0.5},
        when_try_next_units=rng.choice(NEXT_UNITS_POLICIES),
        preempt_policy=rng.choice(["AfterAllUnits", "BeforeNextUnit"]),
    )


def a_random_pod(rng, name):
    labels = rng.choice([{}, {"v": "1"}, {"v": "2"}])
    priority = rng.choice([None, None, "high"])
    return pod(name, labels=labels, cpu=rng.choice(["1", "2", "4"]), priority_class_name=priority)


@pytest.mark.parametrize("seed", range(SEED, SEED + rounds(5)))
async def test_why_agrees_with_the_scheduler_and_counts_agree_with_the_status(seed, tmp_path):
    rng = random.Random(seed)
    async with Harness(tmp_path / "store") as cluster:
        await cluster.create(*common_nodes(), *classes(high=1000), a_random_policy(rng))
        for number in range(8):
            raw = a_random_pod(rng, f"w{number}")
            objects = await list_all(cluster.client)
            governing = require_usage(compile_one(objects, "web", "p")).policy
            made = await cluster.client.create(PODS, raw, "web")  # has its priority and age
            answer = explain(
                governing,
                NextPod(made, "", exists=True),
                objects,
                CONFIGURATION,
                cluster.clock.now(),
            )
            await cluster.settle()
            node = await cluster.node_of(f"w{number}", "web")
            preempts = (answer["preemption"] or {}).get("nominatedNode")
            if answer["schedulable"]:
                assert node in answer["best"]
            elif not preempts:
                assert node == ""
        await cluster.advance(5)
        usage = require_usage(compile_one(await list_all(cluster.client), "web", "p"))
        status = (await cluster.client.get(RESOURCE_POLICIES, "p", "web")).status
        assert (status.usage, status.headroom) == (usage_text(usage), headroom_text(usage))
        assert [unit.pods for unit in status.units] == [len(unit.pods) for unit in usage.units]
