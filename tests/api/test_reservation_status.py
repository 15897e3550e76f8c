import pytest

from holdfast.api.meta import Condition
from holdfast.api.reservation_status import placed, refused, waiting, with_ready
from holdfast.api.timestamps import rfc3339
from holdfast.testing import a_reservation, typed

THEN, NOW = rfc3339(100), rfc3339(200)


def condition(type_, status, reason, message=""):
    return Condition(
        type=type_, status=status, reason=reason, message=message,
        last_probe_time=THEN, last_transition_time=THEN,
    )  # fmt: skip


def told(raw):
    return {k: v for k, v in raw.items() if k not in ("type", "status", "reason")}


def test_a_first_refusal_is_added_to_what_is_there():
    ready = condition("Ready", "False", "Waiting")
    kept, new = refused([ready], "no room", 200)
    assert kept["reason"] == "Waiting"
    assert told(new) == {"message": "no room", "lastProbeTime": NOW, "lastTransitionTime": NOW}
    assert (new["status"], new["reason"]) == ("False", "Unschedulable")


def test_another_refusal_changes_words_and_probe_time():
    (new,) = refused([condition("Scheduled", "False", "Old", "old")], "new", 200)
    assert told(new) == {"message": "new", "lastProbeTime": NOW, "lastTransitionTime": THEN}
    assert new["reason"] == "Unschedulable"


def test_a_refusal_of_what_is_placed_is_only_noted():
    (new,) = refused([condition("Scheduled", "True", "Scheduled")], "new", 200)
    assert told(new) == {"lastProbeTime": NOW, "lastTransitionTime": THEN}


def test_being_placed_replaces_everything():
    assert [(c["type"], c["status"], c["reason"]) for c in placed(200)] == [
        ("Scheduled", "True", "Scheduled"), ("Ready", "True", "Available"),
    ]  # fmt: skip
    assert [(c["type"], c["status"], c["reason"]) for c in waiting(200, "full")] == [
        ("Scheduled", "True", "Scheduled"), ("Ready", "False", "Waiting"),
    ]  # fmt: skip


@pytest.mark.parametrize(("before", "moves"), [("True", True), ("False", False), (None, True)])
def test_ready_moves_its_transition_time_with_its_status(before, moves):
    old = [condition("Scheduled", "True", "Scheduled")]
    old += [condition("Ready", before, "Whatever", "words")] if before else []
    first, ready = with_ready(old, "False", "Expired", 200)
    assert first["lastProbeTime"] == THEN
    assert (ready["lastProbeTime"], ready["lastTransitionTime"]) == (NOW, NOW if moves else THEN)
    assert "message" not in ready


@pytest.mark.parametrize(
    ("spec", "end"),
    [
        ({"ttl": "10s"}, 110), ({"ttl": "0"}, None), ({"ttl": None}, 86500),
        ({"ttl": "0", "expires": rfc3339(500)}, 500), ({"ttl": "5s", "expires": rfc3339(9)}, 9),
        ({"ttl": "soon"}, 86500), ({"ttl": "10s", "expires": "soon"}, 110),
    ],
)  # fmt: skip
def test_when_a_reservation_ends(spec, end):
    assert typed(a_reservation(**spec), creation_timestamp=THEN).ends_at == end
