"""Make one pytest case of each upstream record."""

import hashlib
from collections.abc import Callable

import pytest

from parity import vectors
from parity.vectors import Record

_LONGEST_ID = 100


def parity(
    file: str, *tests: str, where: Callable[[Record], bool] = lambda _: True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test function once for each record in scope of the named upstream tests.

    The function takes ``record`` and compares what ``record.compare`` names. ``where`` splits one
    upstream test among several functions. A record without a function counts as not yet covered; a
    record in ``exceptions.tsv`` must fail.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        return pytest.mark.parity(pytest.mark.parametrize("record", cases)(function))

    if not vectors.present():
        cases = [pytest.param(None, id="vectors-absent")]
    else:
        found = [r for test in tests for r in vectors.select(file, test) if where(r)]
        cases = [pytest.param(r, id=case_id(r), marks=_marks(r)) for r in found]
        assert cases, f"{file}: no record in scope for {', '.join(tests)}"
    return decorate


def case_id(record: Record) -> str:
    """Return a short, stable, printable name: the upstream test, the case and its line."""
    name = record.id.removeprefix(record.source).lstrip(":") or record.name
    plain = "".join(c if c.isprintable() and c.isascii() else "_" for c in name)
    if len(plain) > _LONGEST_ID:
        digest = hashlib.sha256(record.id.encode()).hexdigest()[:8]
        plain = f"{plain[:_LONGEST_ID]}~{digest}"
    return f"{record.test}:{plain}@{record.line}"


def _marks(record: Record) -> list[pytest.MarkDecorator]:
    reason = vectors.exceptions().get((record.file, record.id))
    return [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
