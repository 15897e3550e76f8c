"""The machinery that runs plugins over the world and chooses a node.

Lives here: profiles, the decision in its two halves ``feasible`` and ``rank``, the answers and sums
kept between pods of a class, explanations, and the checks of invariants. May not live here: what a
plugin author reads (``framework``), any particular plugin, I/O, clocks, dice: ``now`` and a seeded
generator are arguments.
"""
