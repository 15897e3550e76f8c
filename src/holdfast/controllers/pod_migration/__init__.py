"""PodMigrationJobs: their steps, their arbitration and limits, and evictions.

``plan`` decides the next step of one job and is pure; ``controller`` executes the step;
``arbitration`` decides which jobs may begin.
"""
