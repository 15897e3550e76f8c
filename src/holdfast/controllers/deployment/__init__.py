"""Deployments: the rollout of new templates over ReplicaSets.

``controller`` has ``plan_deployment`` and executes its plans; ``rollout`` computes the sizes of
ReplicaSets; ``revisions`` names and numbers them; ``status`` has the counts and conditions.
"""
