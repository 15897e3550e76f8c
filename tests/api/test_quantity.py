"""Quantities beyond the parity vectors: numbers, limits, milli and units, properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.quantity import (
    BINARY_SI,
    DECIMAL_EXPONENT,
    DECIMAL_SI,
    MAX_INT64,
    Quantity,
    milli,
    units,
)
from holdfast.runtime.errors import BadRequest

FORMATS = st.sampled_from([DECIMAL_SI, BINARY_SI, DECIMAL_EXPONENT])
AMOUNTS = st.builds(Quantity, st.integers(-(10**18), 10**18), st.integers(-9, 15), FORMATS)


@pytest.mark.parametrize(
    ("number", "written"), [(2, "2"), (0.5, "500m"), (1e-7, "100e-9"), (1e22, "10e21")]
)
def test_json_numbers_are_quantities(number, written):
    assert str(Quantity.parse(number)) == written


@pytest.mark.parametrize("text", ["1e101", "9" * 101, "0x10", "1_000", "１", "1 ", "--1", "1Ki5"])
def test_invalid_quantities_are_rejected(text):
    with pytest.raises(BadRequest):
        Quantity.parse(text)


def test_a_tiny_quantity_is_rounded_up_not_to_zero():
    assert Quantity.parse("1e-999999999") == Quantity.parse("1n")


def test_milli_and_units_are_capped_to_int64():
    assert milli("9Ei") == MAX_INT64
    assert units("1000E") == MAX_INT64
    assert units("-1000E") == -MAX_INT64 - 1


def test_milli_and_units_round_up():
    assert (milli("100u"), units("1m"), units("1.1Ki")) == (1, 1, 1127)


def test_equal_quantities_are_equal_keys():
    assert len({Quantity.parse(t) for t in ("1", "1000m", "1e0", "1.0")}) == 1
    assert sorted(map(Quantity.parse, ("1Gi", "1G", "2"))) == list(
        map(Quantity.parse, ("2", "1G", "1Gi"))
    )


@given(AMOUNTS)
def test_writing_and_reading_is_identity(amount):
    # The output is the canonical form; binary quantities are capped to int64.
    if amount.format != BINARY_SI or abs(amount.value()) <= MAX_INT64:
        assert Quantity.parse(str(amount)) == amount


@given(AMOUNTS, AMOUNTS, st.integers(-1000, 1000))
def test_arithmetic_is_exact(one, other, factor):
    assert one + other == other + one
    assert (one + other) - other == one
    assert (one + other) * factor == one * factor + other * factor
    assert (one < other) == ((other - one) > Quantity(0))


@given(AMOUNTS, st.integers(-9, 3))
def test_rounding_is_away_from_zero_by_less_than_one_unit(amount, scale):
    rounded, exact = amount.round_up(scale)
    size = Quantity(abs(amount.digits), amount.scale)
    rounded_size = Quantity(abs(rounded.digits), rounded.scale)
    assert size <= rounded_size < size + Quantity(1, scale)
    assert exact == (rounded == amount)
