"""The loops that make the cluster agree with what was asked for.

Lives here: one reconciler a file. Each has a pure ``plan_*`` (objects in, a list of writes out) and
a thin ``run`` that feeds it from informers and carries the writes out; ``group.ControllerManager``
starts them all. May not live here: placing pods (the scheduler's), running them (the node agent's),
anything that talks past ``client.Client``. Controllers never call one another: they meet in API
objects, so each may be run alone or be replaced by a cluster's own.
"""
