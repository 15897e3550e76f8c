"""ResourcePolicies: the deletion costs of their pods, and their status.

``index`` keeps the pods of policies by unit and group; ``plan`` is pure; ``controller`` watches and
writes.
"""
