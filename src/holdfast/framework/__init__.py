"""The deciding heart: plugin contract, verdicts, the one generic runner, class cache, profiles.

Lives here: what a plugin may implement (``plugin``), the world it sees (``world``, ``view``), how
plugins are run over it (``feasible`` and ``rank``), what is remembered between pods of a class,
how a decision is explained. May not live here: any particular plugin, I/O, clocks, dice: ``now``
and a seeded generator are arguments.
"""
