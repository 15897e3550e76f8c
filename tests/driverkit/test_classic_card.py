"""One driver for all functions of a card, as the KEP's example of a 5G telco operator wants it.

A claim gets an FPGA block, a signal processor and network interfaces of one and the same card.
"""

from dataclasses import dataclass

from driverkit.autoscaler import Autoscaler
from driverkit.classic_controller import DRIVER, DriverTest
from holdfast.api.resource import Resource
from holdfast.driver import Choice, Device, Driver
from holdfast.node.driverkit.classic_dra.handle import decode_handle
from holdfast.testing import a_node, a_pod
from holdfast.testing.classic_dra.builders import inline

PIPELINES = Resource(DRIVER, "v1", "pipelines", "Pipeline", dict)


@dataclass
class Pipeline:
    """The functions that a data flow needs."""

    fpga: int = 1
    dsp: int = 1
    nic: int = 2


def a_card(name):
    functions = {"fpga": 1, "dsp": 2, "nic": 4}
    return [
        Device(f"{name}-{function}-{i}", {"card": name, "function": function})
        for function, count in functions.items()
        for i in range(count)
    ]


def a_card_driver():
    driver = Driver(DRIVER, params=Pipeline)
    driver.prepare(lambda claim: None)
    driver.inventory(lambda: a_card("card-0"))
    driver.new_node(lambda node: a_card("card-0"))

    @driver.fits
    def fits(free, request):
        """Take everything from the card with the fewest free functions that has enough."""
        cards = {}
        for function in free:
            cards.setdefault(function.attributes["card"], []).append(function)
        for card in sorted(cards, key=lambda name: (len(cards[name]), name)):
            chosen = []
            for function in ("fpga", "dsp", "nic"):
                wanted = getattr(request, function)
                same = [one for one in cards[card] if one.attributes["function"] == function]
                if len(same) < wanted:
                    break
                chosen += same[:wanted]
            else:
                return Choice(chosen)
        return None

    return driver


async def test_a_claim_gets_all_functions_of_one_card(tmp_path):
    async with DriverTest(tmp_path, a_card_driver()) as kit:
        await kit.create_class()
        await kit.create_node("n1", *a_card("card-0"), *a_card("card-1"))
        wide = {"metadata": {"name": "wide"}, "fpga": 0, "dsp": 1, "nic": 3}
        await kit.client.create(PIPELINES, wide, "default")
        reference = {"apiGroup": DRIVER, "kind": "Pipeline", "name": "wide"}
        for name, spec in (("first", {}), ("wide", {"parametersRef": reference}), ("late", {})):
            await kit.create_claim(name, **spec)
            await kit.create_pod(f"pod-{name}", name, selected="n1")
        assert await cards(kit, "first") == {"card-0"}
        assert await cards(kit, "wide") == {"card-1"}  # two interfaces are left on card-0
        assert await kit.answers("pod-late") == {"late": ["n1"]}  # no card has all it needs
        async with Autoscaler(kit) as scaler:
            pods = [
                a_pod(f"new{i}", metadata={"uid": f"uid-{i}"}, claims=[inline("pipeline")])
                for i in range(3)
            ]
            assert await scaler.nodes_to_add(pods, a_node("n1")) == 3


async def cards(kit, name):
    claim = await kit.claim(name)
    handle = decode_handle(claim.status.allocation.resource_handle)
    return {device[: len("card-0")] for device in handle.devices}
