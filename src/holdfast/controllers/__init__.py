"""The controllers: loops that make the cluster match the specs of its objects.

Each module contains one controller: a pure function ``plan_*`` from objects to planned writes, and
a ``Reconciler`` that calls it with the caches of informers and executes the writes.
``controller_manager.ControllerManager`` runs them all. Controllers use only ``client.Client`` and
never call one another, so each can run alone or be replaced by a cluster's own controller. They
do not place pods (``scheduler``) and do not run them (``agent``).
"""
