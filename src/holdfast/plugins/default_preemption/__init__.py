"""DefaultPreemption: who would have to go so that a more important pod fits.

Lives here: the dry run, the victims it finds and the choice among nodes. May not live here:
evicting anybody; the plugin answers with an Effect and the scheduler carries it out.
"""

from __future__ import annotations

from holdfast.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
