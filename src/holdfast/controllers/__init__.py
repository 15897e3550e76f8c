"""The controllers: loops that make the cluster match the specs of its objects.

Lives here: one controller per module or folder, each with a pure function ``plan_*`` from objects
to planned writes, and a ``Reconciler`` that calls it with the caches of informers and executes the
writes; ``controller_manager.ControllerManager`` runs them all. May not live here: placing pods
(``scheduler``), running pods (``agent``), any access to the cluster except by ``client.Client``.
Controllers never call one another, so each can run alone, or a cluster can replace it.
"""
