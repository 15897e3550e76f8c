"""Quantities: parsing, rounding, arithmetic, comparison, canonical form."""

from decimal import Decimal

import pytest

from holdfast.api.quantity import DECIMAL_SI, MILLI, Quantity
from holdfast.runtime.errors import BadRequest
from parity.harness import parity

FILE = "quantity.jsonl"


def exact(value):
    """Build a quantity from an exact decimal, without parsing its text form."""
    sign, digits, exponent = Decimal(value["decimal"]).as_tuple()
    number = int("".join(map(str, digits)))
    return Quantity(-number if sign else number, exponent, value["format"])


def assert_same(got, wanted):
    assert got == exact(wanted)
    assert got.format == wanted["format"]
    assert str(got) == wanted["string"]


@parity(FILE, "TestQuantityParse")
def test_parse(record):
    text = record.input["string"]
    if record.expected.get("error"):
        with pytest.raises(BadRequest):
            Quantity.parse(text)
        return
    got, wanted = Quantity.parse(text), record.expected["value"]
    assert (got, got.format) == (exact(wanted), wanted["format"])
    assert str(got) == record.observed["canonical"]
    for value, name in ((got.value(), "Value"), (got.scaled(MILLI), "MilliValue")):
        if -(2**63) <= value < 2**63:
            assert value == record.observed[name]


@parity(FILE, "TestQuantityParseEmit")
def test_parse_then_write(record):
    assert str(Quantity.parse(record.input["string"])) == record.expected["string"]


@parity(FILE, "TestQuantityString")
def test_write(record):
    amount = exact(record.input["a"])
    assert str(amount) == record.expected["string"]
    if record.input["alternate"]:
        assert Quantity.parse(record.input["alternate"]) == amount


@parity(FILE, "TestQuantityRoundUp")
def test_round_up(record):
    got, was_exact = Quantity.parse(record.input["string"]).round_up(record.input["scale"])
    assert_same(got, record.expected["value"])
    assert was_exact == record.expected["exact"]


@parity(FILE, "TestAdd")
def test_add(record):
    got = exact(record.input["a"]) + exact(record.input["b"])
    assert_same(got, record.expected["value"])


@parity(FILE, "TestSub")
def test_subtract(record):
    got = exact(record.input["a"]) - exact(record.input["b"])
    assert_same(got, record.expected["value"])


@parity(FILE, "TestMul")
def test_multiply(record):
    assert_same(exact(record.input["a"]) * record.input["b"], record.expected["value"])


@parity(FILE, "TestQuantityNeg")
def test_negate(record):
    assert str(-exact(record.input["a"])) == record.expected["string"]


@parity(FILE, "TestQuantityCmp")
def test_compare_parsed(record):
    one, other = Quantity.parse(record.input["a"]), Quantity.parse(record.input["b"])
    assert one.cmp(other) == record.expected["cmp"]


@parity(FILE, "TestQuantityCmpInt64AndDec")
def test_compare_exact(record):
    assert exact(record.input["a"]).cmp(exact(record.input["b"])) == record.expected["cmp"]


@parity(FILE, "TestNewSet")
def test_write_units(record):
    got = Quantity(record.input["value"], 0, record.input["format"])
    assert str(got) == record.expected["string"]


@parity(FILE, "TestMilliNewSet")
def test_write_thousandths(record):
    got = Quantity(record.input["value"], -3, record.input["format"])
    assert str(got) == record.expected["string"]
    if record.expected["roundTripsMilliValue"]:
        assert got.scaled(MILLI) == record.input["value"]


@parity(FILE, "TestNewScaledSet")
def test_write_scaled(record):
    got = Quantity(record.input["value"], record.input["scale"], DECIMAL_SI)
    assert str(got) == record.expected["string"]


@parity(FILE, "TestScaledValue")
def test_scale(record):
    got = Quantity(1, record.input["fromScale"]).scaled(record.input["toScale"])
    assert got == record.expected["value"]


@parity(FILE, "TestStringQuantityAsApproximateFloat64")
def test_as_float(record):
    assert float(Quantity.parse(record.input["string"])) == record.expected["float"]
