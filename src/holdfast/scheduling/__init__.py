"""From a pod to its node: the plugin contract, the plugins, the engine and the scheduler.

Lives here: ``framework`` (what a plugin author reads), ``plugins``, ``engine`` (runs plugins and
caches their results), ``configuration`` (KubeSchedulerConfiguration) and ``scheduler`` (queue,
cycles, event handlers, metrics). The first three are pure. May not live here: what is free on a
node (``state``), controllers.
"""
