"""The descheduler: finds pods that should run elsewhere, and writes PodMigrationJobs for them.

Lives here: the policies, the plan of a cycle, the reading of a DeschedulerConfiguration and the
component that carries a plan out. May not live here: evictions and writes of pods, which the
controller of PodMigrationJobs does (``controllers.pod_migration``), and rules that both need
(``migration``).

A cycle is pure except for its writes: ``simulation`` builds a world from the objects, ``policies``
propose candidates, and ``plan`` accepts those that the scheduler's own code would place better.
"""
