"""Deployments: the rollout of new templates over ReplicaSets.

``controller`` has ``plan_deployment`` and carries it out; ``rollout`` computes the sizes of
ReplicaSets, ``revisions`` names and numbers them, ``status`` has the counts and conditions.
"""
