"""Quantities in claims and slices that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from holdfast.api.decode import JsonObject
from holdfast.api.defaults.devices import Amount, claim_amounts, slice_amounts
from holdfast.api.defaults.raw_fields import expect_amount
from holdfast.api.json_fields import map_at
from holdfast.runtime.errors import BadRequest, Cause

_Amounts = Callable[[JsonObject], Iterator[Amount]]


def _check(amounts: _Amounts) -> Callable[[JsonObject, JsonObject | None], Iterable[Cause]]:
    """Return a check that raises Go's decoding error, unless the amount was stored before."""

    def check(new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
        if messages := dict(_unreadable(amounts, new)):
            known = dict(_unreadable(amounts, old)) if old else {}
            for text, message in messages.items():
                if text not in known:
                    kind = new["kind"]
                    read = f'{kind} in version "v1" cannot be handled as a {kind}'
                    raise BadRequest(f"{read}: {message}")
        return ()

    return check


def _unreadable(amounts: _Amounts, obj: JsonObject) -> Iterator[tuple[str, str]]:
    for holder, key in amounts(obj):
        try:
            expect_amount(holder[key])
        except BadRequest as error:
            yield repr(holder[key]), error.message


def _template_amounts(raw: JsonObject) -> Iterator[Amount]:
    return claim_amounts(dict(map_at(raw, "spec")))


check_claim_amounts = _check(claim_amounts)
check_template_amounts = _check(_template_amounts)
check_slice_amounts = _check(slice_amounts)
