"""What a plugin author imports: the plugin contract, its values, and the world that plugins read.

Lives here: the extension points (``plugin``, ``fast_paths``, ``preemption_support``, ``per_node``)
and what a plugin declares (``traits``, ``arguments``); arguments and results of plugin methods
(``values``, ``events``, ``rejection``, ``waiting_pods``, ``extender``); and what plugins read
(``view``, ``world``, ``nominations``, ``evictions``, ``workload_selectors``). May not live here:
the code that runs plugins (``engine``), any plugin, I/O, clocks or random numbers: ``now`` and a
seeded generator are arguments.
"""
