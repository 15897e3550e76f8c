"""Devices that are equal in what a selector reads share its result, and no others do."""

import itertools

import pytest

from holdfast.api.cel import DeviceSelectors, EvaluationError
from holdfast.api.cel.shared_results import fields_read
from holdfast.api.devices import Device
from holdfast.state.devices.slices import SliceInfo
from holdfast.testing import a_device, a_slice, typed

DRIVER = "gpu.example.com"
OWN, OTHER = f'device.attributes["{DRIVER}"]', 'device.attributes["other.com"]'
FIELDS = {
    f'{OWN}.model == "a"': (("device.attributes", DRIVER, "model"),),
    f'{OWN}["model"] == "a" && device.driver == "{DRIVER}"': (
        ("device.attributes", DRIVER, "model"),
    ),
    f"has({OTHER}.rank)": (("device.attributes", "other.com", "rank"),),
    f"{OTHER}.?rank.orValue(0) > 0": (("device.attributes", "other.com", "rank"),),
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("2Gi")) >= 0': (
        ("device.capacity", DRIVER, "memory"),
    ),
    f'[1, 2].exists(x, {OTHER}.rank == x) && {OWN}.model == "a"': (
        ("device.attributes", DRIVER, "model"),
        ("device.attributes", "other.com", "rank"),
    ),
    "device.allowMultipleAllocations": (),
    '"other.com" in device.attributes': None,
    f'"model" in {OWN}': None,
    f'cel.bind(a, device.attributes, a["{DRIVER}"].model == "a")': (
        ("device.attributes", DRIVER, "model"),
    ),
    "[device].all(d, d.driver != '')": None,
    'device.attributes["other." + "com"].rank == 1': None,
    "has(device.attributes.other)": (),
}


@pytest.mark.parametrize("expression", FIELDS)
def test_fields_that_a_selector_reads(expression):
    assert fields_read(DeviceSelectors().compile(expression).tree) == FIELDS[expression]


def _devices() -> list[Device]:
    """Every combination of a few attributes, some of which selectors read."""
    options = [
        [{}, {"model": "a"}, {"model": "b"}, {f"{DRIVER}/model": "a"}],
        [{}, {"other.com/rank": 1}, {"other.com/rank": 3}, {"other.com/model": "a"}],
        [{}, {"uuid": "u-1"}],
    ]
    more = [{}, {"capacity": {"memory": {"value": "4Gi"}}}, {"allowMultipleAllocations": True}]
    return [
        a_device("d", attributes={k: v for one in chosen for k, v in one.items()}, **rest)
        for *chosen, rest in itertools.product(*options, more)
    ]


def _result(evaluate):
    try:
        return evaluate()
    except EvaluationError as failure:
        return failure.message


def _selected(candidate, expression, selectors):
    return _result(lambda: candidate.selected_by(expression, selectors))


def test_shared_results_are_those_of_an_evaluation():
    candidates = [SliceInfo(typed(a_slice("s", devices=[d]))).candidates[0] for d in _devices()]
    selectors = DeviceSelectors()
    for expression, candidate in itertools.product(FIELDS, candidates):
        device = selectors.selectable_device(DRIVER, candidate.device)
        selector = selectors.compile(expression)
        expected = _result(lambda: selector.matches(device))  # noqa: B023 (called at once)
        assert _selected(candidate, expression, selectors) == expected, (expression, candidate)


def test_a_value_that_cannot_be_read_fails_every_selector_of_its_device_alone():
    broken = a_device("b", attributes={"model": "a"})
    broken["attributes"]["firmware"] = {"version": "not a version"}
    selectors = DeviceSelectors()
    first, second, third = SliceInfo(
        typed(a_slice("s", devices=[a_device("a", attributes={"model": "a"}), broken, broken]))
    ).candidates
    assert _selected(first, f'{OWN}.model == "a"', selectors) is True
    assert "firmware" in _selected(second, f'{OWN}.model == "a"', selectors)
    assert _selected(first, f'{OWN}.model == "b"', selectors) is False
    assert "firmware" in _selected(third, f'{OWN}.model == "b"', selectors)
