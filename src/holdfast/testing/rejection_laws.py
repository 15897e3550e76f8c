"""Rules for what a plugin says about rows that it rejects: when to try again."""

from __future__ import annotations

from random import Random

from holdfast.api.timestamps import parse_rfc3339
from holdfast.framework.plugin import RetryAtPlugin, Rows, Scope, implements
from holdfast.testing.plugin_laws import Case, prepare_case

_LONGEST = 10.0**7
"""How far the rules look ahead, in seconds."""


def check_retry_at(case: Case, random: Random) -> None:
    """``retry_at`` is later than now, and no rejected row changes its verdict before."""
    plugin, name = case.plugin, case.plugin.name
    if not implements(plugin, RetryAtPlugin):
        return
    known = plugin.traits.reads_outside_spec or plugin.traits.scope is Scope.CLUSTER
    assert known, f"{name}: a plugin with retry_at reads the time, so it reads outside the spec"
    created = case.pod.pod.metadata.creation_timestamp
    now = (parse_rfc3339(created) if created else 0.0) + random.choice((0.0, _seconds(random)))
    at_now = prepare_case(case.plugin, case.world, case.pod.pod, now)
    rejected = _rejected(at_now)
    if not len(rejected):
        return
    verdicts = at_now.verdicts(rejected)
    time = plugin.retry_at(at_now.outcome.state, case.pod, rejected)
    assert time is None or time > now, f"{name}: retry_at is later than now"
    span = (now + _LONGEST if time is None else time) - now
    for part in (random.random(), 1 - 1e-6):
        later = prepare_case(case.plugin, case.world, case.pod.pod, now + part * span)
        same = later.outcome.filters and (later.verdicts(rejected) == verdicts).all()
        assert same, f"{name}: rejected rows stay rejected until retry_at"


def _rejected(case: Case) -> Rows:
    if not case.outcome.filters:
        return case.rows[:0]
    rejected: Rows = case.rows[case.verdicts(case.rows) != 0]
    return rejected


def _seconds(random: Random) -> float:
    """Return a duration: a fraction of a second, some minutes or a day."""
    return float(10.0 ** random.uniform(-1, 5))
