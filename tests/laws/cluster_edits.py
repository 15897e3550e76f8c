"""Edits of live reservations, with annotations that tell the audit what was before.

Pods keep what they use when owners, policy or ``allocateOnce`` change. So the objects have their
previous values in annotations, which only the audit reads.
"""

import msgspec

RESIZE = "scheduling.koordinator.sh/reservation-resize-allocatable"
ORDER = "scheduling.koordinator.sh/reservation-order"
PAST = "laws.holdfast.dev/past"
POLICY, SIZE, REUSABLE, ONCE = "another policy", "another size", "reusable", "once"


def an_edit(reservation, rng):
    """Return a patch of a reservation, with the previous values in annotations."""
    spec = reservation.spec
    made = {
        _size: 4, _other_size: 4, _door: 2, _owners: 2, _once: 2, _policy: 2, _end: 2, _taint: 1,
        _order: 1,
    }  # fmt: skip
    [choose] = rng.choices(list(made), list(made.values()))
    return choose(reservation, spec, rng)


def _size(reservation, _spec, rng):
    size = rng.choice((None, '{"resources":{"cpu":"2","memory":"1Gi"}}'))
    notes = _noted(reservation, SIZE)["annotations"]
    return {"metadata": {"annotations": {RESIZE: size, **notes}}}


def _other_size(reservation, _spec, rng):
    asked = {"requests": {"cpu": rng.choice(("1", "2", "3", "5"))}}
    template = {"spec": {"containers": [{"name": "main", "resources": asked}]}}
    return {"metadata": _noted(reservation, SIZE), "spec": {"template": template}}


def _door(_reservation, spec, _rng):
    return {"spec": {"unschedulable": not spec.unschedulable}}


def _owners(reservation, spec, rng):
    chosen = rng.choice((["a"], ["b"], ["a", "b"]))
    owners = [{"labelSelector": {"matchLabels": {"app": app}}} for app in chosen]
    before = [owner.label_selector.match_labels["app"] for owner in spec.owners]
    return {"metadata": _noted(reservation, *before), "spec": {"owners": owners}}


def _once(reservation, spec, _rng):
    note = ONCE if spec.allocate_once else REUSABLE
    edited = {"allocateOnce": not spec.allocate_once}
    return {"metadata": _noted(reservation, note), "spec": edited}


def _policy(reservation, _spec, rng):
    edited = {"allocatePolicy": rng.choice((None, "Aligned", "Restricted"))}
    return {"metadata": _noted(reservation, POLICY), "spec": edited}


def _end(_reservation, _spec, rng):
    return {"spec": {"ttl": rng.choice(("20s", "2m", "1h", "0"))}}


def _taint(_reservation, spec, _rng):
    taint = {"key": "closed", "effect": "NoSchedule"}
    return {"spec": {"taints": None if spec.taints else [taint]}}


def _order(_reservation, _spec, rng):
    return {"metadata": {"labels": {ORDER: rng.choice((None, "3", "first"))}}}


def _noted(obj, *notes):
    past = sorted({*_past(obj), *notes})
    return {"annotations": {PAST: msgspec.json.encode(past).decode()}}


def were(pod):
    """Return annotations with the previous labels of a pod."""
    return _noted(pod, pod.metadata.labels["app"])["annotations"]


def _past(obj):
    text = obj.metadata.annotations.get(PAST)
    return msgspec.json.decode(text) if text else []


def was(obj, note):
    """Return whether an object was this before an edit."""
    return note in _past(obj)


def owners_before(obj):
    """Return the earlier apps of a pod, or of the owners of a reservation."""
    return {note for note in _past(obj) if note in ("a", "b", "none")}
