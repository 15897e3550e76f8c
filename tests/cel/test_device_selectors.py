import pytest

from holdfast.api.cel import CompileError, DeviceSelectors, EvaluationError
from holdfast.api.decode import convert_object
from holdfast.api.devices import Device

DRIVER = "gpu.example.com"


@pytest.fixture
def selectors():
    return DeviceSelectors()


@pytest.fixture
def a100(selectors):
    device = {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "A100"},
            "index": {"int": 3},
            "healthy": {"bool": True},
            "driverVersion": {"version": "535.1.0-rc.1"},
            "other.com/rack": {"string": "r7"},
        },
        "capacity": {"memory": {"value": "40Gi"}},
    }
    return selectors.selectable_device(DRIVER, convert_object(device, Device))


@pytest.mark.parametrize(
    "expression",
    [
        f'device.driver == "{DRIVER}"',
        f'device.attributes["{DRIVER}"].model == "A100"',
        f'device.attributes["{DRIVER}"]["index"] > 2',
        f'device.attributes["{DRIVER}"].healthy',
        'device.attributes["other.com"].rack == "r7"',
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) == 0',
        f'device.capacity["{DRIVER}"].memory == quantity("40960Mi")',
        f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("1Ki"))',
        f'device.attributes["{DRIVER}"].driverVersion.isLessThan(semver("535.1.0"))',
        f'device.attributes["{DRIVER}"].driverVersion.major() == 535',
        f'cel.bind(gpu, device.attributes["{DRIVER}"], gpu.model == "A100" && gpu.healthy)',
        f'device.attributes["{DRIVER}"].?nosuch.orValue(7) == 7',
        f'device.attributes["{DRIVER}"].model.lowerAscii().matches("^a[0-9]+$")',
        f'device.attributes["{DRIVER}"].exists_one(id, id == "index")',
        f'device.attributes["{DRIVER}"].model != 5',
        f'device.attributes["{DRIVER}"].index == 3.0',
        'device.attributes[device.driver].model == "A100"',
        "device.allowMultipleAllocations == false",
        'semver("v12.4", true) == semver("12.4.0")',
        'quantity("1.5Gi") == quantity("1536Mi")',
        'isQuantity("1k") && !isQuantity("200K")',
        'quantity("2").add(quantity("500m")).sub(1) == quantity("1.5")',
        'quantity("7").asInteger() == 7 && !quantity("1500m").isInteger()',
        "[1, 2, 2].isSorted() && [1, 2].sum() == 3 && sets.intersects([1], [1, 2])",
    ],
)
def test_matching_selectors(selectors, a100, expression):
    assert selectors.compile(expression).matches(a100) is True
    assert selectors.compile(f"!({expression})").matches(a100) is False


def test_an_unknown_domain_is_an_empty_map_but_not_present(selectors, a100):
    assert selectors.compile('has(device.attributes["no.com"].x)').matches(a100) is False
    assert selectors.compile('"no.com" in device.attributes').matches(a100) is False
    assert selectors.compile("has(device.attributes.nowhere)").matches(a100) is True
    assert selectors.compile('"x" in device.capacity["no.com"]').matches(a100) is False
    assert selectors.compile("device.attributes.nowhere.size() == 0").matches(a100) is True


def test_a_lookup_inside_a_string_is_not_rewritten(selectors, a100):
    expression = '"device.attributes[\\"a\\"]".size() == 22 // device.attributes["b"]'
    assert selectors.compile(expression).matches(a100) is True


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (f'device.attributes["{DRIVER}"].nosuch == 1', "no such key: nosuch"),
        ('device.attributes["no.com"]["x"].isGreaterThan(quantity("0"))', "no such key: x"),
        (f'device.attributes["{DRIVER}"].model > 1', "no such overload"),
        (f'device.attributes["{DRIVER}"].model', "type string could not be converted to bool"),
        ('quantity("200K") == quantity("1")', "suffix"),
        ('dyn(quantity("1")).isGreaterThan(semver("1.0.0"))', "no such overload"),
        ('"a".find("(" + "") == "a"', "Illegal regex"),
    ],
)
def test_a_failing_expression_is_reported_with_its_reason(selectors, a100, expression, words):
    with pytest.raises(EvaluationError, match=words) as failure:
        selectors.compile(expression).matches(a100)
    assert failure.value.expression == expression


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.bogus == 1", "undefined field 'bogus'"),
        ("?!", "Syntax error"),
        ("cel.bind(d, device.bogus, d == '')", "undefined field 'bogus'"),
        (
            'quantity("1").isGreaterThan(semver("1.0.0"))',
            "kubernetes.Quantity.*kubernetes.Semver",
        ),
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        (f'device.attributes["{DRIVER}"].model.exists(x, true)', "'any' cannot be range"),
        (
            f'device.attributes["{DRIVER}"].model.includes("A")',
            "undeclared reference to 'includes'",
        ),
        ("[[1]]", "not list.list.int"),
        ("google.protobuf.Int64Value{value: 1} == 1", "google.protobuf.Int64Value"),
        ("true" + " " * 10237, "at most 10240 bytes"),
    ],
)
def test_an_expression_that_does_not_compile_is_rejected(selectors, expression, words):
    with pytest.raises(CompileError, match=words):
        selectors.compile(expression)


def test_an_error_on_one_side_of_or_does_not_hide_a_true_other_side(selectors, a100):
    expression = f'device.attributes["{DRIVER}"].nosuch == 1 || true'
    assert selectors.compile(expression).matches(a100) is True


def test_nested_loops_end_in_an_error_not_in_a_hang(selectors, a100):
    expression = "true"
    for depth in range(7):
        expression = f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x{depth}, {expression})"
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        selectors.compile(expression).matches(a100)


def test_an_unreadable_attribute_fails_every_selector(selectors):
    device = convert_object({"name": "x", "attributes": {"odd": {}}}, Device)
    subject = selectors.selectable_device(DRIVER, device)
    with pytest.raises(EvaluationError, match="attribute odd: unsupported attribute value"):
        selectors.compile("true").matches(subject)


def test_a_program_is_compiled_once(selectors):
    assert selectors.compile("true") is selectors.compile("true")
