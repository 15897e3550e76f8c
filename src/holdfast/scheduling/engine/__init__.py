"""Run plugins and choose a node for a pod.

Lives here: profiles, the decision (``feasible`` and ``rank``), the cache of plugin results and
totals per class of pods (docs/caching.md), preparations of a decision, what every preemption
shares, explanations, and the checks of invariants. Start reading in ``decision``.
May not live here: what a plugin author imports (``framework``), any plugin, I/O, clocks or random
numbers: ``now`` and a seeded generator are arguments.
"""
