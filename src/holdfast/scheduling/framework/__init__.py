"""The interface for plugin authors: the plugin contract, its values, and the world to read.

Lives here: plugins and their plans (``plugin``, ``plan``, ``preemption_rules``,
``reservation_options``, ``per_node``), their extension points (``points``) and what a plugin
declares (``traits``, ``arguments``, checked by ``declarations``); arguments and results of plugin
methods (``values``, ``events``, ``rejection``, ``waiting_pods``, ``extender``); and what plugins
read (``view``, ``world``, ``ledgers``, ``nominations``, ``evictions``, ``workload_selectors``).
May not live here: the code that runs plugins (``engine``), any plugin, I/O, clocks or random
numbers: ``now`` and a seeded generator are arguments.
"""
