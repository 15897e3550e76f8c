"""The printer columns of the built-in kinds, as ``kubectl get`` prints them.

One file per family of kinds. No I/O and no clock: ``now`` is an argument.
"""
