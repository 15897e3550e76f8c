"""Pods in operating mode Reservation."""

import json

from holdfast.testing import a_pod
from reservations.objects import PREFIX, WEB

OWNERS = f"{PREFIX}/reservation-owners"
CURRENT = f"{PREFIX}/reservation-current-owner"
BY_LABEL = ({"labelSelector": {"matchLabels": WEB}},)


def acting(name="acting", cpu="4", owners=BY_LABEL, **more):
    """A pod that acts as a reservation for the owners."""
    text = owners if isinstance(owners, str) else json.dumps(owners)
    labels = {f"{PREFIX}/operating-mode": "Reservation", **more.pop("labels", {})}
    notes = {OWNERS: text, **more.pop("annotations", {})}
    return a_pod(name, cpu=cpu, labels=labels, annotations=notes, **more)
