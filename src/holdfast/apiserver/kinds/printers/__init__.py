"""The columns of the built-in kinds as ``kubectl get`` shows them, one file a family of kinds.

No I/O and no clock: ``now`` is an argument.
"""
