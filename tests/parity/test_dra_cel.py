"""Device selectors in CEL."""

from holdfast.api.cel import CompileError, DeviceSelectors, EvaluationError
from holdfast.api.decode import convert_object
from holdfast.api.devices import Device
from parity.harness import parity

# Upstream's messages are cel-go's; only the class of the failure is compared.
CLASSES = {
    "no such key": "no such key",
    "actual cost limit exceeded": "cost limit exceeded",
    "cannot be applied to lists longer": "cannot be applied to lists longer",
    "unsupported attribute value": "unsupported attribute value",
    "expected iterable type": "no such overload",
}


@parity("dra_cel.jsonl", "TestCEL")
def test_selector(record):
    case, expected = record.input, record.expected
    stored = case["envType"] == "StoredExpressions"
    selectors = DeviceSelectors(
        shared_devices=case["enableConsumableCapacity"] or stored,
        list_attributes=case["enableListTypeAttributes"],
    )
    fields = ("attributes", "capacity", "allowMultipleAllocations")
    device = convert_object({field: case[field] for field in fields}, Device)
    try:
        selector = selectors.compile(case["expression"])
    except CompileError:
        assert expected["expectCompileError"]
        return
    assert not expected["expectCompileError"]
    assert selector.estimated_cost == expected["expectCost"]
    try:
        matches = selector.matches(selectors.selectable_device(case["driver"], device))
    except EvaluationError as failure:
        wanted = next(
            ours for theirs, ours in CLASSES.items() if theirs in expected["expectMatchError"]
        )
        assert wanted in str(failure)
    else:
        assert not expected["expectMatchError"]
        assert matches == expected["expectMatch"]
