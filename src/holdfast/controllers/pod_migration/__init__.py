"""PodMigrationJobs: their steps, their arbitration and limits, and evictions.

``plan`` decides the next step of one job, ``arbitration`` which jobs may begin; both are pure.
``controller`` carries them out.
"""
