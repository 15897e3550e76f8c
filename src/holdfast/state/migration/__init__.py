"""Rules for migration: the pods that may migrate, their order, and limits per workload.

Lives here: pure rules about pods that the controller of PodMigrationJobs and the descheduler share.
May not live here: the steps of a job (``controllers.pod_migration``), and which pods should move
(``descheduler``).
"""
