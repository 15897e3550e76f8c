"""What the store needs to know about a Kubernetes object, read without decoding the rest."""

from __future__ import annotations

from holdfast.store.records import Indexed, Key


def index_object(key: Key, value: bytes) -> Indexed:
    """Read uid, labels, owners and the indexed fields out of an object's JSON."""
    raise NotImplementedError
