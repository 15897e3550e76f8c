"""What a plugin author reads: the contract, its values, and the world a plugin sees.

Lives here: what a plugin may implement (``plugin``, ``fast_paths``, ``making_room``, ``per_node``)
and what it declares of itself (``traits``, ``arguments``), the values it is asked with and answers
with (``values``, ``events``, ``rejection``, ``waiting``, ``extender``), and what it looks at
(``view``, ``world`` and the parts of it that no lower package keeps: ``nominations``,
``evictions``, ``workload_selectors``). May not live here: the machinery that runs plugins
(``engine``), any particular plugin, I/O, clocks, dice: ``now`` and a seeded generator are
arguments.
"""
