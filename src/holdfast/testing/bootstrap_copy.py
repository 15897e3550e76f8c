"""The bootstrap objects of a new cluster, copied from the first cluster of the process.

Creating them by requests takes a quarter of the start of a cluster, because the schemas of a dozen
CRDs are validated. A process that starts many clusters does that once for each choice of feature
gates.
"""

from __future__ import annotations

import asyncio
import tempfile
from functools import partial
from pathlib import Path

from holdfast.api.timestamps import rfc3339
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.api_server import ApiServer
from holdfast.server.bootstrap_objects import create_bootstrap_objects
from holdfast.server.kinds import BUILT_IN
from holdfast.server.store.objects import StoredObject
from holdfast.server.store.store import Store
from holdfast.server.verbs.metadata import new_uid, timestamp
from holdfast.testing.clock import VirtualClock
from holdfast.testing.loop_writer import LoopWriter

_ORIGINAL_TIME = rfc3339(VirtualClock().now()).encode()
_originals: dict[tuple[tuple[str, bool], ...], list[StoredObject]] = {}
"""The objects that a server stored at its first start, oldest first, by the gates that are set."""


async def copy_bootstrap_objects(server: ApiServer) -> None:
    """Write the bootstrap objects to an empty store, with new uids, a new time and new revisions.

    A store that is not empty, or a server of other kinds, gets them by requests.
    """
    context = server.context
    gates = context.feature_gates
    built_in = [k for k in BUILT_IN if k.feature is None or gates.enabled(k.feature)]
    if context.store.revision or [*context.registry] != built_in:
        return await create_bootstrap_objects(server)
    key = tuple(sorted(gates.chosen.items()))
    if key not in _originals:
        _originals[key] = await _create_originals(gates)
    now = timestamp(context.clock.now()).encode()
    create = context.store.create
    await asyncio.gather(*(create(o.key, partial(_copy, o, now)) for o in _originals[key]))


async def _create_originals(gates: FeatureGates) -> list[StoredObject]:
    with tempfile.TemporaryDirectory() as directory:
        clock = VirtualClock()
        store = Store.open(Path(directory), clock, writer=LoopWriter)
        server = ApiServer.create(store, clock, feature_gates=gates)
        await server.start()
        objects = [stored for resource in store.resources for stored in store.list(*resource)]
        await server.stop()
        await store.close()
    return sorted(objects, key=lambda stored: stored.revision)


def _copy(original: StoredObject, now: bytes, revision: int) -> bytes:
    """Return the JSON of an object with another uid, time and revision."""
    copied = original.value.replace(
        _identity(original.uid, original.revision), _identity(new_uid(), revision), 1
    )
    assert copied != original.value, original.key
    return copied.replace(_ORIGINAL_TIME, now)


def _identity(uid: str, revision: int) -> bytes:
    return b'"uid":"%s","resourceVersion":"%d"' % (uid.encode(), revision)
