"""The garbage collector in a process that keeps a whole cluster in memory.

Python looks through everything alive for cycles of garbage whenever that has grown by a quarter.
With 50,000 pods one such look holds the loop for a fifth of a second and finds nothing: API
values, which are most of it, cannot form cycles (``api.meta.Struct``), and the scheduler's own
notes of them do not.
"""

from __future__ import annotations

import gc

YOUNG = 5_000
"""New objects between two looks at the new ones alone: half a millisecond's worth. Deciding makes
many that are gone at once; Python's 700 makes it look so often that it costs a twentieth."""


def settle() -> None:
    """Take all that is there now, after the first sync, as here to stay: never look at it again.

    What comes later is still looked at, and what goes is freed as ever, by counting references.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
