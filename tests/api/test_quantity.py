"""Amounts, where the vectors do not reach: numbers, limits, the cached readers, and laws."""

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
from holdfast.errors import BadRequest

FORMATS = st.sampled_from([DECIMAL_SI, BINARY_SI, DECIMAL_EXPONENT])
AMOUNTS = st.builds(Quantity, st.integers(-(10**18), 10**18), st.integers(-9, 15), FORMATS)


@pytest.mark.parametrize(
    ("number", "written"), [(2, "2"), (0.5, "500m"), (1e-7, "100e-9"), (1e22, "10e21")]
)
def test_json_numbers_are_amounts_too(number, written):
    assert str(Quantity.parse(number)) == written


@pytest.mark.parametrize("text", ["1e101", "9" * 101, "0x10", "1_000", "１", "1 ", "--1", "1Ki5"])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(BadRequest):
        Quantity.parse(text)


def test_an_absurdly_small_wish_is_still_a_wish():
    assert Quantity.parse("1e-999999999") == Quantity.parse("1n")


def test_the_fast_readers_stop_at_what_a_column_can_hold():
    assert milli("9Ei") == MAX_INT64
    assert units("1000E") == MAX_INT64
    assert units("-1000E") == -MAX_INT64 - 1


def test_the_fast_readers_round_up():
    assert (milli("100u"), units("1m"), units("1.1Ki")) == (1, 1, 1127)


def test_equal_amounts_are_one_key_whatever_their_spelling():
    assert len({Quantity.parse(t) for t in ("1", "1000m", "1e0", "1.0")}) == 1
    assert sorted(map(Quantity.parse, ("1Gi", "1G", "2"))) == list(
        map(Quantity.parse, ("2", "1G", "1Gi"))
    )


@given(AMOUNTS)
def test_writing_and_reading_is_identity(amount):
    # What is written is the canonical form; binary amounts are capped where int64 ends.
    if amount.format != BINARY_SI or abs(amount.value()) <= MAX_INT64:
        assert Quantity.parse(str(amount)) == amount


@given(AMOUNTS, AMOUNTS, st.integers(-1000, 1000))
def test_arithmetic_is_exact(one, other, factor):
    assert one + other == other + one
    assert (one + other) - other == one
    assert (one + other) * factor == one * factor + other * factor
    assert (one < other) == ((other - one) > Quantity(0))


@given(AMOUNTS, st.integers(-9, 3))
def test_rounding_goes_away_from_zero_by_less_than_a_step(amount, scale):
    rounded, exact = amount.round_up(scale)
    size = Quantity(abs(amount.digits), amount.scale)
    rounded_size = Quantity(abs(rounded.digits), rounded.scale)
    assert size <= rounded_size < size + Quantity(1, scale)
    assert exact == (rounded == amount)
