"""The basics of every process, independent of Kubernetes: settings, clocks, errors, files.

Lives here: ``settings`` and ``feature_gates``; ``clock``; ``errors``; private files, certificates
and child processes; health checks, types of metrics, repeated log lines; ``shared_cache``. May not
live here: anything about API objects, and imports of other packages of Holdfast.
"""
