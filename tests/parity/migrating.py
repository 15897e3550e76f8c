"""Read the PodMigrationJobs of Koordinator's test tables."""

from holdfast.api.decode import convert_object
from holdfast.api.pod_migration_job import PodMigrationJob


def typed(raw, kind=PodMigrationJob):
    return convert_object(raw or {}, kind)
