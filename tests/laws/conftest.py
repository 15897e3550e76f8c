import itertools
import math
import random
import uuid

import pytest

from holdfast.client import informer
from holdfast.controllers.resource_policy import controller as resource_policy
from holdfast.server.verbs import metadata


@pytest.fixture
def repeatable(monkeypatch):
    """Make uids, jitter and task order deterministic, so that a failing seed fails again."""
    seeds, uids = itertools.count(1), random.Random(0)
    seeded = random.Random

    class Jitter(seeded):
        def __new__(cls, seed=None):
            return super().__new__(cls)

        def __init__(self, seed=None):
            super().__init__(next(seeds) if seed is None else seed)

    monkeypatch.setattr(random, "Random", Jitter)
    for module in (informer, resource_policy):
        monkeypatch.setattr(module, "YIELD_AFTER_SECONDS", math.inf)
    monkeypatch.setattr(
        metadata, "new_uid", lambda: str(uuid.UUID(int=uids.getrandbits(128), version=4))
    )
